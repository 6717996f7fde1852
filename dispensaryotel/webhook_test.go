package dispensaryotel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// receiver is an observed webhook receiver, and a fake platform that delivers to it.
type receiver struct {
	*recorded
	platform *dispensarytest.Server
	handler  http.Handler
	attempts chan webhook.Attempt // ended attempts, after observation
	log      *logtest.Buffer
}

// newReceiver starts a receiver that handles events with handle. change may be nil.
func newReceiver(t testing.TB, handle webhook.HandlerFunc, change func(*webhook.HandlerConfig)) *receiver {
	t.Helper()
	r := &receiver{recorded: record(t), platform: dispensarytest.New(t, dispensarytest.WithBehavior(behavior.DeliveryConditionsOff)), attempts: make(chan webhook.Attempt, 100), log: &logtest.Buffer{}}
	_, err := r.platform.Clinics.ActivateKey(r.platform.ClinicKey())
	require.NoError(t, err)
	work := r.Work(webhook.Work{Handle: handle, Retry: webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond}, Logger: logger(r.log)})
	observe := work.Observer.AttemptEnd
	work.Observer.AttemptEnd = func(ctx context.Context, a webhook.Attempt) {
		observe(ctx, a)
		r.attempts <- a
	}
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: work})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close(t.Context()) })
	app := r.platform.Application()
	config := webhook.HandlerConfig{
		Environment: r.platform.Site().Environment, Inbox: inbox, Logger: logger(r.log),
		Secrets: []dispensary.Secret{dispensary.NewSecret(app.WebhookSecret)}, Challenge: dispensary.NewSecret(app.ChallengeToken),
	}
	if change != nil {
		change(&config)
	}
	handler, err := webhook.NewHandler(r.Webhook(config))
	require.NoError(t, err)
	r.handler = handler
	return r
}

// deliver performs an action on the platform, and returns its event after delivery.
func (r *receiver) deliver(t testing.TB, act func(*dispensarytest.Server) (model.Event, error)) model.Event {
	t.Helper()
	server := httptest.NewServer(r.handler)
	defer server.Close() // waits for observations after the response
	require.NoError(t, r.platform.Webhooks.Register(server.URL))
	event, err := act(r.platform)
	require.NoError(t, err)
	require.NoError(t, r.platform.Webhooks.WaitDelivered(t.Context(), event.ID))
	return event
}

// anOrder places an order for a patient.
func anOrder(p *dispensarytest.Server) (model.Event, error) {
	_, event, err := p.Orders.Place(p.Patients.All()[0].ID, model.OrderCreate{})
	return event, err
}

// Spans follow an event from the request to the calls of its handler: the inbox stores it
// below the request, and the attempt links to that span.
func TestSpansFollowEventToHandler(t *testing.T) {
	t.Parallel()
	var r *receiver
	r = newReceiver(t, func(ctx context.Context, e events.Event) error {
		_, err := r.platform.Client(model.User{}, dispensary.WithObserver(r.Calls())).Clinic.Get(ctx)
		return err
	}, nil)
	event := r.deliver(t, anOrder)
	assert.Equal(t, webhook.ResultHandled, (<-r.attempts).Result)

	accept, process := r.one(t, "accept order.placed"), r.one(t, "process order.placed")
	request := r.one(t, "receive webhook")
	requireChild(t, request, accept)
	assert.Equal(t, trace.SpanKindServer, request.SpanKind)
	assert.Equal(t, trace.SpanKindProducer, accept.SpanKind)
	assert.Equal(t, trace.SpanKindConsumer, process.SpanKind)
	assert.False(t, process.Parent.IsValid(), "the attempt must start a new trace")
	require.Len(t, process.Links, 1)
	assert.Equal(t, accept.SpanContext.SpanID(), process.Links[0].SpanContext.SpanID())
	requireChild(t, process, r.one(t, "clinic.get"))
	for name, span := range map[string]map[string]string{"receive": set(request), "accept": set(accept), "process": set(process)} {
		assert.Equal(t, event.ID, span["messaging.message.id"], name)
		assert.Equal(t, "order.placed", span["dispensary.event.type"], name)
		assert.Equal(t, "us", span["dispensary.region"], name)
	}
	assert.Equal(t, "accepted", set(request)["dispensary.webhook.outcome"])
	assert.Equal(t, "200", set(request)["http.response.status_code"])
	assert.Equal(t, "accepted", set(accept)["dispensary.webhook.outcome"])
	assert.Equal(t, "handled", set(process)["dispensary.attempt.result"])
	assert.Equal(t, "1", set(process)["dispensary.attempt.number"])
	assert.Equal(t, "process", set(process)["messaging.operation.type"])

	assert.Equal(t, 1, r.points(t, "messaging.client.operation.duration")[0].count)
	assert.Equal(t, "handled", r.points(t, "messaging.process.duration")[0].attributes["dispensary.attempt.result"])
	assert.Equal(t, 1, r.points(t, "dispensary.inbox.wait")[0].count)
	assert.Empty(t, r.points(t, "dispensary.inbox.dead_letters"))
	for _, metric := range []string{"messaging.client.operation.duration", "messaging.process.duration", "dispensary.webhook.request.duration"} {
		assert.NotContains(t, r.points(t, metric)[0].attributes, "messaging.message.id", "metrics must not have a series for each event")
	}
}

// A span from middleware in front of the handler continues.
func TestReceiveContinuesOuterSpan(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, succeed, nil)
	ctx, server := r.tracers.Tracer("test").Start(t.Context(), "server", trace.WithSpanKind(trace.SpanKindServer))
	r.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhooks", strings.NewReader("x")))
	server.End()
	request := r.one(t, "receive webhook")
	requireChild(t, r.one(t, "server"), request)
	assert.Equal(t, trace.SpanKindInternal, request.SpanKind)
	assert.Equal(t, "signature_missing", set(request)["error.type"])
	assert.Equal(t, "rejected", set(request)["dispensary.webhook.outcome"])
	assert.Equal(t, codes.Unset, request.Status.Code, "a rejected request is not an error")
	assert.Equal(t, []point{{map[string]string{
		"dispensary.webhook.outcome": "rejected", "http.response.status_code": "401", "error.type": "signature_missing",
	}, 1}}, r.points(t, "dispensary.webhook.request.duration"))
}

func succeed(context.Context, events.Event) error { return nil }

// inboxFunc is a function as an inbox.
type inboxFunc func(context.Context, webhook.Delivery) (webhook.Receipt, error)

func (f inboxFunc) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	return f(ctx, d)
}

// inbox returns the observed inbox of a handler for the given one.
func (r *recorded) inbox(inbox webhook.Inbox) webhook.Inbox {
	return r.Webhook(webhook.HandlerConfig{Inbox: inbox}).Inbox
}

// A failing inbox is an error of its span and of the request, without the error's text.
func TestFailingInboxIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err           error
		accept, reply string
	}{
		"full":    {webhook.ErrInboxFull, "inbox_full", "inbox_full"},
		"unknown": {fmt.Errorf("cannot store: %w", errors.New("secret text")), "*errors.errorString", "inbox"},
	} {
		r := record(t)
		inbox := r.inbox(inboxFunc(func(context.Context, webhook.Delivery) (webhook.Receipt, error) { return webhook.Receipt{}, c.err }))
		_, err := inbox.Accept(t.Context(), delivery("evt_1"))
		require.ErrorIs(t, err, c.err)
		span := r.one(t, "accept order.placed")
		assert.Equal(t, codes.Error, span.Status.Code, name)
		assert.Equal(t, c.accept, set(span)["error.type"])

		config := r.Webhook(webhook.HandlerConfig{})
		config.Observer.RequestEnd(config.Observer.RequestStart(t.Context(), httptest.NewRequest(http.MethodPost, "/", nil)), webhook.Observation{
			Outcome: webhook.OutcomeUnavailable, Status: 503, Tenant: "clinic-a", Err: fmt.Errorf("%w: %w", webhook.ErrInbox, c.err),
		})
		span = r.one(t, "receive webhook")
		assert.Equal(t, codes.Error, span.Status.Code, name)
		assert.Equal(t, c.reply, set(span)["error.type"])
		assert.Equal(t, "clinic-a", set(span)["dispensary.webhook.tenant"])
		assert.NotContains(t, r.dump(t), "secret text")
	}
}

func delivery(id string) webhook.Delivery {
	return webhook.Delivery{
		Key:  webhook.Key{Environment: dispensary.USSandbox, EventID: id},
		Type: events.TypeOrderPlaced, ReceivedAt: time.Now(),
		Body: []byte(`{"event":{"id":"` + id + `","type":"order.placed","data":{"order":{"id":"or_1"}}}}`),
	}
}

// An unknown event type could contain any text.
func TestUnknownEventTypeIsNotRecorded(t *testing.T) {
	t.Parallel()
	r := record(t)
	inbox := r.inbox(inboxFunc(func(context.Context, webhook.Delivery) (webhook.Receipt, error) {
		return webhook.Receipt{Duplicate: true}, nil
	}))
	d := delivery("evt_1")
	d.Type = "Jane Doe"
	_, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	span := r.one(t, "accept _OTHER")
	assert.Equal(t, "_OTHER", set(span)["dispensary.event.type"])
	assert.Equal(t, "duplicate", set(span)["dispensary.webhook.outcome"])
	assert.NotContains(t, r.dump(t), "Jane")
}

// The program's own hooks run first.
func TestWebhookKeepsCallersHooks(t *testing.T) {
	t.Parallel()
	type key struct{}
	var observed []string
	r := newReceiver(t, succeed, func(c *webhook.HandlerConfig) {
		c.Observer.RequestStart = func(ctx context.Context, _ *http.Request) context.Context {
			return context.WithValue(ctx, key{}, "own")
		}
		c.Observer.RequestEnd = func(ctx context.Context, o webhook.Observation) {
			observed = append(observed, fmt.Sprint(ctx.Value(key{}), o.Outcome))
			panic("an observer of the program's own")
		}
	})
	r.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, []string{"ownrejected"}, observed)
	assert.Equal(t, "method", set(r.one(t, "receive webhook"))["error.type"])
}

// holding is an engine with fixed numbers.
type holding struct {
	engine.Engine
	stats engine.Stats
	err   error
}

func (h *holding) Stats(context.Context) (engine.Stats, error) { return h.stats, h.err }

func TestWatchInboxReportsNumbers(t *testing.T) {
	t.Parallel()
	r := record(t)
	inbox := &holding{stats: engine.Stats{Waiting: 7, Running: 2, Dead: 1, Oldest: time.Now().Add(-90 * time.Minute)}}
	stop, err := r.WatchInbox("orders", inbox)
	require.NoError(t, err)
	byState := map[string]int{}
	for _, p := range r.points(t, "dispensary.inbox.events") {
		assert.Equal(t, "orders", p.attributes["dispensary.inbox.name"])
		byState[p.attributes["dispensary.inbox.state"]] = p.count
	}
	assert.Equal(t, map[string]int{"waiting": 7, "running": 2, "dead": 1}, byState)
	ages := r.points(t, "dispensary.inbox.age")
	require.Len(t, ages, 1)
	assert.InDelta(t, 5400, ages[0].count, 600)

	inbox.stats = engine.Stats{Oldest: time.Now().Add(time.Hour)} // from a clock that is ahead
	assert.Zero(t, r.points(t, "dispensary.inbox.age")[0].count)
	inbox.stats = engine.Stats{}
	assert.Zero(t, r.points(t, "dispensary.inbox.age")[0].count, "an empty inbox must have age 0")

	inbox.err = errors.New("away")
	var data metricdata.ResourceMetrics
	require.ErrorContains(t, r.metrics.Collect(t.Context(), &data), `inbox "orders": away`)
	require.NoError(t, stop())
	assert.Empty(t, r.points(t, "dispensary.inbox.events"))
}

// logger logs everything without the time, because dates are among the words that the test
// searches for.
func logger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Valid and forged events arrive at a working and a failing inbox, and their handler fails
// with all of their data. Only the type and the ID are recorded.
func TestSignalsLeakNoEventData(t *testing.T) {
	t.Parallel()
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
		_, event, err := p.Patients.Create(model.PatientCreate{FirstName: "Zaphod", LastName: "Marked", Email: "zaphod@example.org"})
		return event, err
	})
	results := []webhook.Result{(<-r.attempts).Result, (<-r.attempts).Result} // two workers, in any order
	assert.ElementsMatch(t, []webhook.Result{webhook.ResultFailed, webhook.ResultDead}, results)

	forge := func(header string, body []byte) {
		q := httptest.NewRequest(http.MethodPost, "/webhooks?patient=Zaphod", bytes.NewReader(body))
		q.Header.Set(webhook.SignatureHeader, header)
		mount.ServeHTTP(httptest.NewRecorder(), q)
	}
	forge("t=1,v1="+strings.Repeat("0", 64), body)
	forge("t=Zaphod", body)
	_, err := r.inbox(inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		return webhook.Receipt{}, errors.New(string(d.Body))
	})).Accept(t.Context(), webhook.Delivery{Type: events.TypePatientCreated, Body: body})
	require.Error(t, err)

	delivered, err := events.Parse(body)
	require.NoError(t, err)
	said := r.dump(t) + r.log.String()
	assert.Contains(t, said, event.ID)
	assert.Contains(t, said, "process patient.created")
	r.platform.CheckNoLeak(t, said)
	texts := regexp.MustCompile(`:"([^"]{5,})"`).FindAllSubmatch(delivered.Data, -1)
	require.NotEmpty(t, texts)
	for _, text := range texts {
		assert.NotContains(t, said, string(text[1]))
	}
}

func TestLogNamesEventOfAttempt(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, succeed, nil)
	event := r.deliver(t, anOrder)
	<-r.attempts
	_, line, _ := strings.Cut(r.log.String(), `"webhook event handled"`)
	line, _, _ = strings.Cut(line, "\n")
	for _, want := range []string{
		`"event_id":"` + event.ID + `"`, `"event_type":"order.placed"`, `"environment":"us/sandbox"`, `"integration_id":`, `"outcome":"handled"`, `"attempt":1`,
	} {
		assert.Contains(t, line, want)
	}
}
