package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// fixture is a platform with a webhook receiver, on a frozen clock. It counts handled events.
type fixture struct {
	platform *dispensarytest.Server
	clock    *dispensarytest.Clock
	inbox    *memoryinbox.Inbox
	handler  *webhook.Handler
	broken   atomic.Bool // responds with 503 instead of calling the handler

	clinic       string
	integrations []string

	mu         sync.Mutex
	handled    map[webhook.Key]int
	order      []webhook.Key
	duplicates []webhook.Key // of the received webhooks
	bodies     map[webhook.Key]events.Event
	happened   int
}

// fixtureStart is a time of day. Every longer test passes a midnight.
var fixtureStart = time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC)

// leaseTTL is the time after which the claim of a dead process expires.
const leaseTTL = time.Minute

// patient is the timeout for accepting an event, long enough for a busy machine.
const patient = time.Minute

func newFixture(t *testing.T, options ...dispensarytest.Option) *fixture {
	t.Helper()
	s := &fixture{handled: map[webhook.Key]int{}, bodies: map[webhook.Key]events.Event{}}
	s.platform = dispensarytest.New(t, append([]dispensarytest.Option{
		dispensarytest.WithClock(dispensarytest.FrozenClock(fixtureStart)), dispensarytest.WithInMemory(),
		dispensarytest.WithBehavior(behavior.DeliveryConditionsOff, behavior.IntegrationActivationFromTheStart), dispensarytest.WithTuning(dispensarytest.Tuning{JournalLimit: 20_000, DeliveryTimeout: patient}),
	}, options...)...)
	s.clock = s.platform.Clock
	s.findIntegrations(t)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: s.handle, Workers: 1}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close(context.Background()) })
	s.inbox = inbox
	app := s.platform.Application()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.platform.Site().Environment,
		Secrets:     []api.Secret{api.NewSecret(app.WebhookSecret)},
		Challenge:   api.NewSecret(app.ChallengeToken),
		Inbox:       inbox,
		Now:         s.clock.Now,

		AcceptTimeout: patient,
		Observer:      webhook.Observer{RequestEnd: s.observe},

		RespondUnsignedProbe: true, // needed for one behavior
	})
	require.NoError(t, err)
	s.handler = handler
	require.NoError(t, s.platform.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.broken.Load() {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})))
	return s
}

// newLossyFixture returns a fixture that loses all webhooks.
func newLossyFixture(t *testing.T, options ...dispensarytest.Option) *fixture {
	t.Helper()
	s := newFixture(t, options...)
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	return s
}

// findIntegrations sets the first clinic and its integrations.
func (s *fixture) findIntegrations(t *testing.T) {
	t.Helper()
	first, err := s.client(dispensary.WithClinicKey(dispensary.NewSecret(s.platform.ClinicKey()))).Clinic.Get(t.Context())
	require.NoError(t, err)
	for _, key := range s.platform.ClinicKeys() {
		got, err := s.client(dispensary.WithClinicKey(dispensary.NewSecret(key))).Clinic.Get(t.Context())
		if err == nil && got.ID == first.ID {
			s.integrations = append(s.integrations, got.IntegrationID)
		}
	}
	require.NotEmpty(t, s.integrations)
	s.clinic = first.ID
	s.platform.Journal.Reset()
}

// client returns a client with a new token, because tokens expire after two hours of the
// clock.
func (s *fixture) client(options ...dispensary.Option) *dispensary.Client {
	once := dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1})
	return s.platform.Client(model.User{}, append([]dispensary.Option{once}, options...)...)
}

func (s *fixture) handle(ctx context.Context, e events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := webhook.HandlingFrom(ctx).Key
	s.handled[key]++
	s.order = append(s.order, key)
	s.bodies[key] = e
	return nil
}

func (s *fixture) observe(_ context.Context, o webhook.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Outcome == webhook.OutcomeDuplicate {
		s.duplicates = append(s.duplicates, o.Key)
	}
}

// config configures the reconciler of the fixture's clinic.
type config struct {
	reconcile.Config
	reconcile.Clinic
}

// config returns the configuration of a reconciler with a new client.
func (s *fixture) config() config {
	return config{reconcile.Config{
		Environment: s.platform.Site().Environment,
		Inbox:       s.inbox,
		List:        reconcile.ClinicIDs(s.clinic),
		Now:         s.clock.Now,
	}, reconcile.Clinic{
		Events:       s.client().Events,
		Integrations: reconcile.Integrations(s.integrations...),
	}}
}

// reconciler reconciles the fixture's clinic.
type reconciler struct {
	*reconcile.Clinics
	clinic string
}

func (r *reconciler) Run(ctx context.Context) (reconcile.Report, error) {
	return r.Clinics.Run(ctx, r.clinic)
}

// reconciler returns a reconciler. change may be nil.
func (s *fixture) reconciler(t *testing.T, change func(*config)) *reconciler {
	t.Helper()
	c := s.config()
	if change != nil {
		change(&c)
	}
	if c.Open == nil {
		c.Open = func(context.Context, string, api.Limiter) (reconcile.Clinic, error) { return c.Clinic, nil }
	}
	all, err := reconcile.New(c.Config)
	require.NoError(t, err)
	return &reconciler{all, s.clinic}
}

// reconcile runs once and expects success.
func (s *fixture) reconcile(t *testing.T, change func(*config)) reconcile.Report {
	t.Helper()
	report, err := s.reconciler(t, change).Run(t.Context())
	require.NoError(t, err)
	return report
}

// fails runs once and expects the error want.
func (s *fixture) fails(t *testing.T, want error, change func(*config)) (reconcile.Report, error) {
	t.Helper()
	report, err := s.reconciler(t, change).Run(t.Context())
	require.ErrorIs(t, err, want)
	return report, err
}

// happen creates n events, in turn of every group but clinic keys, and returns their keys. The
// clock advances by one second with each.
func (s *fixture) happen(t *testing.T, n int) (keys []webhook.Key) {
	t.Helper()
	p := s.platform
	patient, product := p.Patients.All()[0], p.Products.All()[0]
	for range n {
		s.happened++
		var e model.Event
		var err error
		switch s.happened % 5 {
		case 0:
			_, e, err = p.Patients.Create(model.PatientCreate{})
		case 1:
			_, e, err = p.Patients.Update(patient.ID, model.PatientUpdate{FirstName: new(fmt.Sprint("Canary", s.happened))})
		case 2:
			_, e, err = p.Plans.Create(patient.ID, model.PlanCreate{})
		case 3:
			_, e, err = p.Orders.Place(patient.ID, model.OrderCreate{})
		default:
			_, e, err = p.Products.Describe(product.ID, fmt.Sprint("<p>News ", s.happened, "</p>"))
		}
		require.NoError(t, err)
		keys = append(keys, s.keys(e)...)
		s.clock.Advance(time.Second)
	}
	return keys
}

// keys returns the keys of an event, one for each integration.
func (s *fixture) keys(e model.Event) (keys []webhook.Key) {
	for _, id := range s.integrations {
		keys = append(keys, webhook.Key{Environment: s.platform.Site().Environment, EventID: e.ID, IntegrationID: id})
	}
	return keys
}

// switchOff breaks the receiver until the platform disables the endpoint. It returns the keys
// of the undelivered events.
func (s *fixture) switchOff(t *testing.T) (keys []webhook.Key) {
	t.Helper()
	s.broken.Store(true)
	for {
		keys = append(keys, s.happen(t, 1)...)
		s.clock.Advance(time.Hour)
		if endpoint, _ := s.platform.Webhooks.Endpoint(); endpoint.Disabled {
			require.Contains(t, endpoint.Reason, "24 hours")
			return keys
		}
	}
}

// switchOn repairs the receiver and enables the endpoint.
func (s *fixture) switchOn(t *testing.T) {
	t.Helper()
	s.broken.Store(false)
	require.NoError(t, s.platform.Webhooks.Enable())
}

// sendLate delivers the events in only by webhook, or all events if only is empty. All
// webhooks must be acknowledged. If only is empty, they must be duplicates.
func (s *fixture) sendLate(t *testing.T, only ...string) {
	t.Helper()
	for _, e := range s.platform.Events() {
		if len(only) > 0 && !slices.Contains(only, e.ID) {
			continue
		}
		for _, key := range s.keys(e) {
			body, err := json.Marshal(map[string]any{"event": map[string]any{
				"id": e.ID, "type": e.Type, "created_at": e.CreatedAt, "clinic_id": e.ClinicID, "data": e.Data, "integration_id": key.IntegrationID,
			}})
			require.NoError(t, err)
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, s.request(string(body)))
			require.Equal(t, http.StatusOK, w.Code)
			if len(only) == 0 {
				require.Equal(t, key, s.duplicates[len(s.duplicates)-1])
			}
		}
	}
}

// finish closes the inbox, and checks that each key was handled once, and no other key of the
// integrations.
func (s *fixture) finish(t *testing.T, keys ...webhook.Key) {
	t.Helper()
	require.NoError(t, s.inbox.Close(t.Context()))
	want := map[webhook.Key]int{}
	for _, key := range keys {
		want[key] = 1
	}
	got := map[webhook.Key]int{}
	for key, n := range s.handled {
		assert.Equal(t, key.IntegrationID, s.bodies[key].IntegrationID)
		for _, id := range s.integrations {
			if key.IntegrationID == id {
				got[key] = n
			}
		}
	}
	assert.Equal(t, want, got)
}

// calls counts the requests to the platform since the journal was reset, by kind of operation.
func (s *fixture) calls() (all, pages, reads int) {
	for _, r := range s.platform.Journal.Requests() {
		switch {
		case r.Operation == "events.get":
			reads++
		case strings.HasPrefix(r.Operation, "events.list") || r.Operation == "webhook_deliveries.list":
			pages++
		}
		all++
	}
	return all, pages, reads
}

// request returns a webhook request signed by the platform.
func (s *fixture) request(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body))
	secret := api.NewSecret(s.platform.Application().WebhookSecret)
	r.Header.Set(webhook.SignatureHeader, webhook.Sign(secret, s.clock.Now(), []byte(body)))
	return r
}

// rewriting returns the services of a client with changed responses. change receives the body
// of every response.
func (s *fixture) rewriting(change func(*http.Request, map[string]any)) events.Service {
	return s.client(dispensary.WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := s.platform.HTTPClient().Transport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		var body map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			return nil, err
		}
		change(r, body)
		changed, err := json.Marshal(body)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
		resp.Header.Del("Content-Length")
		return resp, err
	}))).Events
}

// rewritten gives a reconciler the changed responses.
func (s *fixture) rewritten(change func(*http.Request, map[string]any)) func(*config) {
	return func(c *config) { c.Events = s.rewriting(change) }
}

// deleteFromLog removes a field from all events in the delivery log.
func deleteFromLog(body map[string]any, field string) {
	for _, row := range items(body, "webhook_deliveries") {
		delete(row["event_payload"].(map[string]any)["event"].(map[string]any), field)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// items returns the objects of a list in a body, or nil if the list is missing.
func items(body map[string]any, name string) (all []map[string]any) {
	list, _ := body[name].([]any)
	for _, item := range list {
		all = append(all, item.(map[string]any))
	}
	return all
}

// hide removes events from a list and from its count.
func hide(body map[string]any, which func(map[string]any) bool) {
	list, ok := body["events"].([]any)
	if !ok {
		return
	}
	left := slices.DeleteFunc(slices.Clone(list), func(e any) bool { return which(e.(map[string]any)) })
	body["events"] = left
	if meta, ok := body["meta"].(map[string]any); ok {
		meta["total_count"] = meta["total_count"].(float64) - float64(len(list)-len(left))
	}
}

// hooked is an inbox with a hook. before is called with the name of each method, and its error
// or panic replaces the result.
type hooked struct {
	reconcile.Inbox
	before func(ctx context.Context, method string, d webhook.Delivery) error
}

// onAccept returns a hook for Accept only.
func onAccept(f func() error) func(context.Context, string, webhook.Delivery) error {
	return func(_ context.Context, method string, _ webhook.Delivery) error {
		if method == "Accept" {
			return f()
		}
		return nil
	}
}

func (h hooked) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := h.before(ctx, "Accept", d); err != nil {
		return webhook.Receipt{}, err
	}
	return h.Inbox.Accept(ctx, d)
}

func (h hooked) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if err := h.before(ctx, "Missing", webhook.Delivery{}); err != nil {
		return nil, err
	}
	return h.Inbox.Missing(ctx, keys)
}

func (h hooked) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	if err := h.before(ctx, "ClaimCheckpoint", webhook.Delivery{}); err != nil {
		return nil, err
	}
	return h.Inbox.ClaimCheckpoint(ctx, name, holder, ttl)
}

func (h hooked) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	if err := h.before(ctx, "SaveCheckpoint", webhook.Delivery{}); err != nil {
		return err
	}
	return h.Inbox.SaveCheckpoint(ctx, name, holder, state, ttl)
}

func (h hooked) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if err := h.before(ctx, "ReleaseCheckpoint", webhook.Delivery{}); err != nil {
		return err
	}
	return h.Inbox.ReleaseCheckpoint(ctx, name, holder)
}

// dated gives a reconciler another date for some events, in lists and in the log.
func (s *fixture) dated(at time.Time, ids ...string) func(*config) {
	return s.rewritten(func(_ *http.Request, body map[string]any) {
		for _, e := range items(body, "events") {
			if slices.Contains(ids, e["id"].(string)) {
				e["created_at"] = at.Format(time.RFC3339)
			}
		}
		if list, ok := body["events"].([]any); ok {
			slices.SortStableFunc(list, func(a, b any) int {
				return -strings.Compare(a.(map[string]any)["created_at"].(string), b.(map[string]any)["created_at"].(string))
			})
		}
		for _, row := range items(body, "webhook_deliveries") {
			e := row["event_payload"].(map[string]any)["event"].(map[string]any)
			if slices.Contains(ids, e["id"].(string)) {
				row["attempted_at"] = at.Format(time.RFC3339)
			}
		}
	})
}
