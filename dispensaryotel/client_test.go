package dispensaryotel_test

import (
	"context"
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
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
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
