package dispensaryotel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/webhook"
)

// Every operation meets every fault, observed, with debug logging on. No value of
// a patient, no token, no secret, no id of a path and no word of what was sent or
// answered is in a span, a metric, a log line or the baggage.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for name := range calltest.All(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFixture(t)
			for _, f := range mishaps {
				c.wire.mishap = f
				err := c.call(t, name)
				if f == nil {
					require.NoError(t, err)
				}
			}
			said := c.dump(t) + c.log.String()
			if name == "oauth.authorize" { // a page for a browser: nothing is sent
				return
			}
			assert.Contains(t, said, name, "nothing was said of it")
			assert.NotEmpty(t, c.wire.words, "nothing was sent that could leak")
			requireSilent(t, c.Platform, said, c.wire.words)
		})
	}
}

// requireSilent fails if the text has a value of the platform's patients, one of its
// secrets, or one of words in it.
func requireSilent(t *testing.T, platform *dispensarytest.Server, said string, words map[string]bool) {
	t.Helper()
	platform.CheckNoLeak(t, said)
	for word := range words {
		if at := strings.Index(said, word); at >= 0 {
			t.Errorf("%q is in the text: …%s", word, said[max(0, at-120):min(len(said), at+60)])
		}
	}
}

// fixture is a platform whose calls are observed and go through a wire.
type fixture struct {
	*calltest.Fixture
	*recorded
	wire *wire
	log  *logtest.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: calltest.NewFixture(t), recorded: record(t), log: &logtest.Buffer{}}
	c.wire = &wire{t: t, base: c.Platform.HTTPClient().Transport, words: map[string]bool{}}
	c.Fixture.Client = c.Platform.Client(c.Platform.Users()[0], c.recorded.Client(), dispensary.WithLogger(logger(c.log)),
		dispensary.WithHTTPClient(&http.Client{Transport: c.wire}),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2, MinWait: time.Nanosecond, MaxWait: time.Nanosecond}))
	return c
}

// call makes one call. The table's own calls of the token endpoint are made by a
// client without observers.
func (c *fixture) call(t *testing.T, name string) error {
	t.Helper()
	switch name {
	case operation.OAuthToken.Name:
		_, err := c.oauth(t).Exchange(t.Context(), c.code(t))
		return err
	case operation.OAuthRevoke.Name:
		token, err := calltest.OAuth(t, c.Platform).Exchange(t.Context(), c.code(t))
		require.NoError(t, err)
		return c.oauth(t).Revoke(t.Context(), token, api.WithoutRetries())
	}
	_, err := calltest.All(t)[name](t.Context(), c.Fixture)
	return err
}

func (c *fixture) oauth(t *testing.T) *oauth.Client {
	t.Helper()
	app := c.Platform.Application()
	client, err := oauth.New(c.OAuth(oauth.Config{
		Site: c.Platform.Site(), HTTPClient: &http.Client{Transport: c.wire}, Logger: logger(c.log),
		ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret), RedirectURL: app.RedirectURI,
	}))
	require.NoError(t, err)
	return client
}

// code walks a user through the authorization page.
func (c *fixture) code(t *testing.T) dispensary.Secret {
	t.Helper()
	state := oauth.NewState()
	address, err := calltest.OAuth(t, c.Platform).AuthorizeURL(state)
	require.NoError(t, err)
	back, err := c.Platform.Approve(address, c.Platform.Users()[0])
	require.NoError(t, err)
	code, err := oauth.ParseCallback(back.Query(), state)
	require.NoError(t, err)
	return code
}

// mishap answers a request in place of the platform; echo is all that was sent.
type mishap func(r *http.Request, echo string) (*http.Response, error)

// mishaps are those that could speak, success first.
var mishaps = []mishap{
	nil,
	answering(http.StatusBadRequest), answering(http.StatusUnauthorized), answering(http.StatusForbidden), answering(http.StatusNotFound),
	answering(http.StatusTooManyRequests), answering(http.StatusInternalServerError), answering(http.StatusOK),
	func(_ *http.Request, echo string) (*http.Response, error) { return nil, errors.New(echo) },
}

// answering repeats all that was sent, in the body and in the reason.
func answering(status int) mishap {
	return func(r *http.Request, echo string) (*http.Response, error) {
		body, _ := json.Marshal(map[string]string{"error": echo})
		return &http.Response{
			StatusCode: status, Status: fmt.Sprint(status, " ", echo), ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req-7"}}, Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	}
}

// wire is a transport that remembers the words of requests and answers, and makes
// mishaps.
type wire struct {
	t      testing.TB
	base   http.RoundTripper
	mishap mishap
	words  map[string]bool
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	assert.Zero(w.t, baggage.FromContext(r.Context()).Len(), "baggage")
	assert.Empty(w.t, r.Header.Get("Traceparent"))
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	w.remember(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if strings.Count(part, "-") == 4 { // an id
			w.remember(part)
		}
	}
	for _, values := range r.URL.Query() {
		for _, value := range values {
			w.remember(value)
		}
	}
	w.listen(body)
	if w.mishap != nil {
		return w.mishap(r, strings.Join([]string{r.URL.String(), r.Header.Get("Authorization"), string(body)}, " "))
	}
	response, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(answer))
	w.listen(answer)
	return response, err
}

// listen remembers the texts of a body.
func (w *wire) listen(body []byte) {
	var tree any
	if json.Unmarshal(body, &tree) == nil {
		w.walk(tree)
	}
}

func (w *wire) walk(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			w.walk(inner)
		}
	case []any:
		for _, inner := range value {
			w.walk(inner)
		}
	case string:
		w.remember(value)
	}
}

// vocabulary are words that operations, events and this module use as well.
var vocabulary = map[string]bool{
	"patient": true, "practitioner": true, "product": true, "staff": true, "order": true, "active": true, "draft": true,
	"available": true, "patient.created": true,
}

// shortest is what a word needs to be found by no accident.
const shortest = 5

func (w *wire) remember(word string) {
	if len(word) >= shortest && !vocabulary[strings.ToLower(word)] {
		w.words[word] = true
	}
}

// logger writes everything, but no time: dates are among the words that are
// looked for.
func logger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Events arrive well and badly, at an inbox that takes them and one that does not,
// and their handler fails with all it knows. Nothing but id and type is recorded.
func TestNothingOfAnEventLeaks(t *testing.T) {
	t.Parallel()
	heard := &wire{words: map[string]bool{}}
	r := newReceiver(t, func(ctx context.Context, e events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			return fmt.Errorf("%s: %w", e.Data, errors.New(string(e.Data)))
		}
		panic(string(e.Data))
	}, nil)
	mount := r.handler
	var body []byte
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ = io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		mount.ServeHTTP(w, q)
	})
	event := r.deliver(t, func(p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Patients.Register(model.NewPatient{FirstName: "Zaphod", LastName: "Marked", Email: "zaphod@example.org"})
		return event, err
	})
	results := []webhook.Result{(<-r.attempts).Result, (<-r.attempts).Result} // of two workers, in any order
	assert.ElementsMatch(t, []webhook.Result{webhook.ResultFailed, webhook.ResultDead}, results)

	forge := func(header string, body []byte) {
		q := httptest.NewRequest(http.MethodPost, "/webhooks?patient=Zaphod", bytes.NewReader(body))
		q.Header.Set(webhook.SignatureHeader, header)
		mount.ServeHTTP(httptest.NewRecorder(), q)
	}
	forge("t=1,v1="+strings.Repeat("0", 64), body)
	forge("t=Zaphod", body)
	_, err := r.Inbox(inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		return webhook.Receipt{}, errors.New(string(d.Body))
	})).Accept(t.Context(), webhook.Delivery{Type: events.PatientCreated, Body: body})
	require.Error(t, err)

	heard.listen(body)
	delivered, err := events.Parse(body)
	require.NoError(t, err)
	delete(heard.words, delivered.ID)
	delete(heard.words, delivered.IntegrationID) // which the log has
	require.Contains(t, heard.words, "zaphod@example.org")
	said := r.dump(t) + r.log.String()
	assert.Contains(t, said, event.ID)
	assert.Contains(t, said, "process patient.created")
	requireSilent(t, r.platform, said, heard.words)
}

// The lines of the log say of every request and every attempt which event it was,
// of what type, which attempt, and what became of it.
func TestLinesNameTheEvent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, succeed, nil)
	event := r.deliver(t, anOrder)
	<-r.attempts
	var request, attempt string
	for line := range strings.Lines(r.log.String()) {
		switch {
		case strings.Contains(line, `"webhook accepted"`):
			request = line
		case strings.Contains(line, `"webhook event handled"`):
			attempt = line
		}
	}
	for _, want := range []string{`"event_id":"` + event.ID + `"`, `"event_type":"order.placed"`, `"environment":"us/sandbox"`, `"integration_id":`} {
		assert.Contains(t, request, want)
		assert.Contains(t, attempt, want)
	}
	assert.Contains(t, request, `"outcome":"accepted"`)
	assert.Contains(t, attempt, `"outcome":"handled"`)
	assert.Contains(t, attempt, `"attempt":1`)
}
