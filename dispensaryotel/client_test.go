package dispensaryotel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// quick retries without waiting.
func quick() dispensary.Option {
	return dispensary.WithRetryPolicy(dispensary.RetryPolicy{MinWait: time.Nanosecond, MaxWait: time.Nanosecond})
}

// A call is a span below the caller's span. Each attempt is a span below the call, and the
// context of its request.
func TestCallRecordsEachAttempt(t *testing.T) {
	t.Parallel()
	platform, r := dispensarytest.New(t), record(t)
	platform.Fault(model.Fault{Operation: "patients.get", Effect: model.EffectErrorStatus, Status: 503, Times: 1})
	platform.Fault(model.Fault{Operation: "patients.get", Effect: model.EffectTruncatedBody, Times: 1})
	var parents []trace.SpanID
	limiter, err := ratelimit.New(100, time.Second)
	require.NoError(t, err)
	client := platform.Client(model.User{}, quick(), dispensary.WithObserver(r.Calls()), dispensary.WithLimiter(limiter),
		dispensary.WithTransport(through(platform.HTTPClient().Transport, func(r *http.Request) {
			parents = append(parents, trace.SpanContextFromContext(r.Context()).SpanID())
			assert.Empty(t, r.Header.Get("Traceparent"), "the platform must receive no trace header")
			assert.Zero(t, baggage.FromContext(r.Context()).Len())
		})))
	ctx, mine := r.tracers.Tracer("test").Start(t.Context(), "mine")
	id := platform.Patients.All()[0].ID
	_, err = client.Clinic.Patients.Get(ctx, id)
	require.NoError(t, err)
	mine.End()
	assert.NotContains(t, r.dump(t), id)
	platform.CheckNoLeak(t, r.dump(t))

	call := r.one(t, "patients.get")
	requireChild(t, r.one(t, "mine"), call)
	assert.Equal(t, trace.SpanKindInternal, call.SpanKind)
	assert.Equal(t, codes.Unset, call.Status.Code)
	assert.Equal(t, "3", set(call)["dispensary.attempts"])
	assert.Equal(t, "200", set(call)["http.response.status_code"])
	assert.Equal(t, "us", set(call)["dispensary.region"])
	assert.Equal(t, "sandbox", set(call)["dispensary.stage"])

	attempts := r.ended("GET /clinic/patients/{id}")
	require.Len(t, attempts, 3)
	for i, attempt := range attempts {
		requireChild(t, call, attempt)
		assert.Equal(t, trace.SpanKindClient, attempt.SpanKind)
		assert.Equal(t, attempt.SpanContext.SpanID(), parents[i])
		assert.Equal(t, "GET", set(attempt)["http.request.method"])
		assert.Equal(t, "/clinic/patients/{id}", set(attempt)["url.template"])
		assert.Equal(t, "127.0.0.1", set(attempt)["server.address"])
		assert.NotEmpty(t, set(attempt)["server.port"])
		assert.Contains(t, set(attempt), "dispensary.limiter.wait")
	}
	requireAttempt(t, attempts[0], map[string]string{"http.response.status_code": "503", "error.type": "503"})
	requireAttempt(t, attempts[1], map[string]string{"http.response.status_code": "200", "error.type": "connection_closed", "http.request.resend_count": "1", "dispensary.retry.reason": "server"})
	requireAttempt(t, attempts[2], map[string]string{"http.response.status_code": "200", "http.request.resend_count": "2", "dispensary.retry.reason": "network"})
	assert.NotEmpty(t, set(attempts[0])["dispensary.request_id"])

	assert.Equal(t, []point{{map[string]string{
		"dispensary.operation": "patients.get", "dispensary.region": "us", "dispensary.stage": "sandbox", "http.response.status_code": "200",
	}, 1}}, r.points(t, "dispensary.client.call.duration"))
	assert.Len(t, r.points(t, "http.client.request.duration"), 3, "one series for each result of an attempt")
	assert.Len(t, r.points(t, "dispensary.client.retries"), 2, "one series for each reason")
	assert.Equal(t, 3, r.points(t, "dispensary.client.limiter.wait")[0].count)
}

// requireAttempt compares the attributes that differ between attempts.
func requireAttempt(t *testing.T, span tracetest.SpanStub, want map[string]string) {
	t.Helper()
	got := set(span)
	for _, key := range []string{"http.response.status_code", "error.type", "http.request.resend_count", "dispensary.retry.reason"} {
		assert.Equal(t, want[key], got[key], key)
	}
	failed := want["error.type"] != ""
	assert.Equal(t, failed, span.Status.Code == codes.Error)
	assert.Empty(t, span.Status.Description)
	assert.Empty(t, span.Events, "an exception event would contain the error's text")
}

// A failed call is an error with a one-word cause.
func TestFailedCallRecordsCause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   model.Fault
		call    func(context.Context, *dispensary.Client) error
		want    string
		outcome string
	}{
		"not found": {model.Fault{}, getPatient("nobody"), "404", ""},
		"argument":  {model.Fault{}, getPatient(""), "invalid_argument", "not_sent"},
		"unknown outcome": {
			model.Fault{Operation: "patients.create", Effect: model.EffectDropAfterCommit}, createPatient, "connection_closed", "maybe_applied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			platform, r := dispensarytest.New(t), record(t)
			if c.fault.Effect != "" {
				platform.Fault(c.fault)
			}
			require.Error(t, c.call(t.Context(), platform.Client(model.User{}, dispensary.WithObserver(r.Calls()), quick())))
			var span tracetest.SpanStub
			for _, s := range r.spans.GetSpans() {
				if s.SpanKind == trace.SpanKindInternal {
					span = s
				}
			}
			assert.Equal(t, codes.Error, span.Status.Code)
			assert.Empty(t, span.Status.Description)
			assert.Equal(t, c.want, set(span)["error.type"])
			assert.Equal(t, c.outcome, set(span)["dispensary.outcome"])
			assert.Equal(t, c.want, r.points(t, "dispensary.client.call.duration")[0].attributes["error.type"])
		})
	}
}

func getPatient(id string) func(context.Context, *dispensary.Client) error {
	return func(ctx context.Context, c *dispensary.Client) error {
		_, err := c.Clinic.Patients.Get(ctx, id)
		return err
	}
}

func createPatient(ctx context.Context, c *dispensary.Client) error {
	_, err := c.Clinic.Patients.Create(ctx, clinic.PatientCreate{FirstName: "Ida", LastName: "Moor", Email: "ida@example.org"})
	return err
}

func TestInvalidFieldsAreCounted(t *testing.T) {
	t.Parallel()
	platform, r := dispensarytest.New(t), record(t)
	odd := roundTripper(func(request *http.Request) (*http.Response, error) {
		body := `{"patient":{"id":"p1","discount":"canary","date_of_birth":"canary"}}`
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: request}, nil
	})
	client := platform.Client(model.User{}, dispensary.WithObserver(r.Calls()), dispensary.WithTransport(odd))
	_, err := client.Clinic.Patients.Get(t.Context(), "p1")
	require.NoError(t, err)
	assert.Equal(t, []point{{map[string]string{
		"dispensary.operation": "patients.get", "dispensary.region": "us", "dispensary.stage": "sandbox",
	}, 2}}, r.points(t, "dispensary.client.invalid_fields"))
}

// A list makes one call per page below the same parent, even if pages are fetched at the same
// time.
func TestListRecordsCallPerPage(t *testing.T) {
	t.Parallel()
	platform, r := dispensarytest.New(t), record(t)
	ctx, mine := r.tracers.Tracer("test").Start(t.Context(), "mine")
	client := platform.Client(model.User{}, dispensary.WithObserver(r.Calls()))
	for _, err := range client.Catalog.Products.List().PageSize(2).Limit(8).Prefetch(3).All(ctx) {
		require.NoError(t, err)
	}
	mine.End()
	pages := r.ended("products.list")
	assert.GreaterOrEqual(t, len(pages), 4)
	for _, page := range pages {
		requireChild(t, r.one(t, "mine"), page)
	}
}

// A raw call does not record its path.
func TestRawCallRecordsNoPath(t *testing.T) {
	t.Parallel()
	platform, r := dispensarytest.New(t), record(t)
	id := platform.Patients.All()[0].ID
	_, err := platform.Client(model.User{}, dispensary.WithObserver(r.Calls())).Do(t.Context(), dispensary.RawRequest{Method: "GET", Path: "/clinic/patients/" + id})
	require.NoError(t, err)
	assert.Equal(t, "(raw)", set(r.one(t, "GET (raw)"))["url.template"])
	assert.NotContains(t, r.dump(t), id)
}

// Several observers report the same call, each with its own spans.
func TestObserversKeepTheirOwnSpans(t *testing.T) {
	t.Parallel()
	platform, a, b := dispensarytest.New(t), record(t), record(t)
	_, err := platform.Client(model.User{}, dispensary.WithObserver(a.Calls()), dispensary.WithObserver(b.Calls())).Clinic.Get(t.Context())
	require.NoError(t, err)
	for _, r := range []*recorded{a, b} {
		assert.Equal(t, []string{"GET /clinic", "clinic.get"}, r.names())
		assert.Equal(t, "200", set(r.one(t, "clinic.get"))["http.response.status_code"])
	}
}

// connected is a user with an observed client and token refreshes.
type connected struct {
	*recorded
	platform  *dispensarytest.Server
	conns     *tokens.Connections
	store     tokenstore.Store
	client    *dispensary.Client
	refreshes int // refreshes reported to the program's own observer
}

const user = "user-of-the-integrator"

// connect connects a user. The first token expires after the given lifetime.
func connect(t *testing.T, lifetime time.Duration) *connected {
	t.Helper()
	return connectTo(t, record(t), lifetime)
}

func connectTo(t *testing.T, r *recorded, lifetime time.Duration) *connected {
	t.Helper()
	c := &connected{recorded: r, platform: dispensarytest.New(t), store: tokenstore.NewMemoryStore()}
	app := c.platform.Application()
	client, err := oauth.New(oauth.Config{
		Observers: []observe.Observer{c.Calls()},
		Site:      c.platform.Site(), Transport: c.platform.HTTPClient().Transport, RedirectURL: app.RedirectURI,
		ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
	})
	require.NoError(t, err)
	c.conns, err = tokens.NewConnections(tokens.Config{
		Client: client, Store: c.store, Observers: []tokens.Observer{{RefreshEnd: func(context.Context, tokens.Refresh) {
			c.refreshes++
			panic("an observer of the program's own")
		}}, c.Tokens()},
	})
	require.NoError(t, err)
	issued := c.platform.Tokens.Issue(c.platform.Users()[0])
	_, err = c.store.Save(t.Context(), c.conns.Key(user), oauth.Token{
		AccessToken: dispensary.NewSecret(issued.AccessToken), RefreshToken: dispensary.NewSecret(issued.RefreshToken),
		ExpiresAt: time.Now().Add(lifetime), Environment: c.platform.Site().Environment,
	})
	require.NoError(t, err)
	c.client = c.platform.Client(model.User{}, dispensary.WithObserver(c.Calls()), dispensary.WithTokenSource(c.conns.TokenSource(user)))
	return c
}

// A refresh is a span below its call, and contains the call of the token endpoint.
func TestRefreshIsBelowCall(t *testing.T) {
	t.Parallel()
	c := connect(t, -time.Minute)
	_, err := c.client.Clinic.Get(t.Context())
	require.NoError(t, err)
	call, refresh, token := c.one(t, "clinic.get"), c.one(t, "oauth.refresh"), c.one(t, "oauth.token")
	requireChild(t, call, refresh)
	requireChild(t, refresh, token)
	requireChild(t, token, c.one(t, "POST /oauth/token"))
	requireChild(t, call, c.one(t, "GET /clinic"))
	assert.Equal(t, map[string]string{
		"dispensary.oauth.refresh.outcome": "refreshed", "dispensary.oauth.refresh.background": "false",
		"dispensary.region": "us", "dispensary.stage": "sandbox",
	}, set(refresh))
	assert.Equal(t, []point{{set(refresh), 1}}, c.points(t, "dispensary.oauth.refresh.duration"))
	assert.Equal(t, 1, c.refreshes, "the program's own hook must run, and its panic must not fail the call")
	assert.NotContains(t, c.dump(t), user)
}

// A rejected token is replaced within the call, and the next attempt records the reason.
func TestRejectedTokenIsReplacedWithinCall(t *testing.T) {
	t.Parallel()
	c := connect(t, time.Hour)
	c.platform.Fault(model.Fault{Operation: "clinic.get", Effect: model.EffectTokenExpired, Times: 1})
	_, err := c.client.Clinic.Get(t.Context())
	require.NoError(t, err)
	attempts := c.ended("GET /clinic")
	require.Len(t, attempts, 2)
	assert.Equal(t, "401", set(attempts[0])["error.type"])
	assert.Equal(t, "unauthorized", set(attempts[1])["dispensary.retry.reason"])
	requireChild(t, c.one(t, "clinic.get"), c.one(t, "oauth.refresh"))
	assert.Equal(t, codes.Unset, c.one(t, "clinic.get").Status.Code)
}

// A user who must reauthorize is counted by reason, without the user's ID.
func TestReauthorizationIsCountedByReason(t *testing.T) {
	t.Parallel()
	c := connect(t, -time.Minute)
	record, err := c.conns.Record(t.Context(), user)
	require.NoError(t, err)
	record.Token.RefreshToken = dispensary.Secret{}
	_, err = c.store.Save(t.Context(), record.Key, record.Token)
	require.NoError(t, err)
	_, err = c.client.Clinic.Get(t.Context())
	require.ErrorIs(t, err, dispensary.ErrReauthorize)
	assert.Equal(t, "reauthorize", set(c.one(t, "clinic.get"))["error.type"])
	refresh := c.one(t, "oauth.refresh")
	assert.Equal(t, codes.Error, refresh.Status.Code)
	assert.Equal(t, "reauthorize", set(refresh)["error.type"])
	assert.Equal(t, []point{{map[string]string{
		"dispensary.oauth.event": "must_reauthorize", "dispensary.oauth.reason": "invalid_grant", "dispensary.region": "us", "dispensary.stage": "sandbox",
	}, 1}}, c.points(t, "dispensary.oauth.events"))
	assert.NotContains(t, c.dump(t), user)
}

func TestEventsHaveNames(t *testing.T) {
	t.Parallel()
	r, ctx := record(t), t.Context()
	observe := r.Tokens()
	observe.Connected(ctx, tokens.Authorization{})
	observe.Disconnected(ctx, tokenstore.Key{})
	observe.MustReauthorize(ctx, &tokens.ReauthorizeError{})
	observe.Restored(ctx, tokenstore.Key{})
	observe.CommitDelayed(ctx, tokens.CommitDelayed{Err: errors.New("away")})
	observe.MassRejection(ctx, tokens.MassRejection{})
	observe.ConfigErrorDetected(ctx, tokens.ConfigErrorDetected{Err: &oauth.ConfigError{}})
	var names []string
	for _, p := range r.points(t, "dispensary.oauth.events") {
		names = append(names, p.attributes["dispensary.oauth.event"])
	}
	assert.ElementsMatch(t, []string{
		"connected", "disconnected", "must_reauthorize", "restored", "commit_delayed", "mass_rejection", "config_error_detected",
	}, names)
}
