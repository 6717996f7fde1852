// Package mistakes contains a correct webhook endpoint and the mistakes of real receivers. A
// [Mutation] adds one mistake to the endpoint. The tests of acceptance tests use the package.
package mistakes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// Mistake is one mistake of a receiver.
type Mistake struct {
	// Case is the name of the case that finds the mistake. Says is a part of its findings.
	Case, Says string

	// Breaks adds the mistake to an endpoint.
	Breaks Mutation
}

// All contains mistakes of real receivers by name, at least one for each case of receivercheck.
var All = map[string]Mistake{
	// Signatures.
	"challenge token for secret": {"Signature/Valid", "wrong value from the dashboard", configured(func(c *webhook.HandlerConfig) { c.Secrets, c.Challenge = []api.Secret{c.Challenge}, c.Secrets[0] })},
	"body read by a middleware":  {"Signature/Valid", "read or rewritten by something in front", Changing(func(r *http.Request) { r.Body = http.NoBody })},
	"body encoded again":         {"Signature/RawBytes", "unusual whitespace", Changing(func(r *http.Request) { Replace(r, compact(BodyOf(r))) })},
	"signature of other bytes":   {"Signature/RawBytes", "the same JSON", trusting(func(h string, b []byte) bool { return fresh(h, b) || verified(h, compact(b)) })},
	"signature not checked":      {"Signature/Forged", "another secret", trusting(func(h string, _ []byte) bool { return h != "" })},
	"signature of the body alone": {"Signature/Forged", "omits the timestamp", trusting(func(h string, b []byte) bool {
		_, v1 := parts(h)
		return fresh(h, b) || v1 == mac("", b)
	})},
	"truncated digits accepted": {"Signature/Forged", "first half", trusting(func(h string, b []byte) bool {
		t, v1 := parts(h)
		return v1 != "" && strings.HasPrefix(mac(t+".", b), v1)
	})},
	"signature is optional":      {"Signature/Missing", "without a signature", trusting(func(h string, b []byte) bool { return h == "" || fresh(h, b) })},
	"header is indexed":          {"Signature/Malformed", "sends no response", Changing(indexHeader)},
	"no tolerance":               {"Signature/Stale", "24h0m0s ago", trusting(verified)},
	"tolerance in one direction": {"Signature/Future", "in the future", trusting(func(h string, b []byte) bool { return verified(h, b) && age(h) < 5*time.Minute })},
	"tolerance of a minute":      {"Signature/Drift", "responds with 401", configured(func(c *webhook.HandlerConfig) { c.Tolerance = time.Minute })},
	"replays are handled":        {"Signature/Replayed", "2 times instead of 1", storing(keyed(newKey))},
	"first v1 only": {"Signature/TwoSignatures", "wrong and a correct", Changing(func(r *http.Request) {
		elements := strings.Split(r.Header.Get("SVC-Signature"), ",")
		r.Header.Set("SVC-Signature", strings.Join(elements[:min(2, len(elements))], ","))
	})},
	"old secret rejected": {"Signature/Rotated", "the old secret", configured(func(c *webhook.HandlerConfig) { c.Secrets = c.Secrets[:1] })},
	"open without a secret": {"Signature/FailsClosed", "although no secret is configured: responds with 200", func(s *Endpoint, r *receivercheck.Target) {
		open := *r
		trusting(func(string, []byte) bool { return true })(s, &open)
		r.Hooks.WithoutSecret = func() (http.Handler, error) { return open.Handler, nil }
	}},

	// The challenge.
	"202": {"Challenge/Response", "status 202", responding(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 200, 202) })},
	"no challenge on events": {"Challenge/Response", "no body", responding(func(r *http.Request, a *httptest.ResponseRecorder) {
		if r.ContentLength != 0 {
			a.Body.Reset()
		}
	})},
	"secret for challenge":             {"Challenge/Response", "contains the webhook secret", replacing(Challenge, Secret)},
	"challenge of another environment": {"Challenge/Response", "differs from the dashboard", replacing(Challenge, "challenge-of-production")},
	"bare challenge":                   {"Challenge/Response", "not a JSON object", replacing(Acknowledgement, Challenge)},
	"challenge with other members":     {"Challenge/Response", "members besides", replacing(`{`, `{"ok":true,`)},
	"challenge under a wrapper":        {"Challenge/Response", "no member challenge", replacing(`"challenge"`, `"data"`)},
	"challenge as text":                {"Challenge/Response", "text/plain", responding(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Header().Set("Content-Type", "text/plain") })},
	"probe rejected":                   {"Challenge/Probe", "400", rejecting(400, func(_ map[string]any, b []byte) bool { return len(b) == 0 })},
	"unsigned probes acknowledged":     {"Challenge/UnsignedProbe", "without a signature but responds with 200", configured(func(c *webhook.HandlerConfig) { c.RespondUnsignedProbe = true })},
	"unsigned probes rejected":         {"Challenge/UnsignedProbe", "responds with 401", func(_ *Endpoint, r *receivercheck.Target) { r.Features.UnsignedProbe = true }},
	"any method":                       {"Challenge/OnlyPost", "with GET", Changing(func(r *http.Request) { r.Method = http.MethodPost })},

	// Events.
	"only two known types": {"Events/EveryType", "product.updated", rejecting(400, func(e map[string]any, _ []byte) bool {
		return e["type"] != "order.placed" && e["type"] != "patient.updated"
	})},
	"unknown types rejected":  {"Events/UnknownType", "archived", rejecting(400, func(e map[string]any, _ []byte) bool { return e["type"] == "treatment_plan.archived" })},
	"unknown fields rejected": {"Events/UnknownFields", "unknown fields", rejecting(422, strict)},
	"clinic id always expected": {"Events/MissingFields", "without clinic_id but sends no response", rejecting(400, func(e map[string]any, _ []byte) bool {
		return e["clinic_id"].(string) == "" // panics
	})},
	"data decoded first":            {"Events/OtherForms", "as strings", rejecting(400, typed)},
	"orders are wrapped":            {"Signature/Valid", "if its fields are in data.order", rejecting(400, wants("order"))},
	"orders are not wrapped":        {"Events/Wrapping", "data.order", rejecting(400, wants("order_number"))},
	"event always at the top level": {"Events/Payload", "event_payload", rejecting(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"event_payload"`)) })},
	"wrapper always expected":       {"Events/Bare", "without a wrapper", rejecting(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"id"`)) })},

	// Delivery.
	"duplicates are conflicts":     {"Delivery/Repeated", "409", rejecting(409, known())},
	"duplicates without challenge": {"Always/Acknowledged", "has no body; seen in", rejecting(200, known())},
	"no de-duplication":            {"Delivery/Repeated", "3 times instead of 1", storing(keyed(newKey))},
	"query, then insert":           {"Delivery/Concurrent", "times instead of 1", storing(checkThenAct)},
	"concurrent copies rejected":   {"Delivery/Concurrent", "403", oneAtATime()},
	"one integration":              {"Delivery/Integrations", "handled it 1 times", Quickly(storing(keyed(func(k *webhook.Key) { k.IntegrationID = "" })))},
	"only newer events":            {"Delivery/Reordered", "one hour older", rejecting(409, newest())},
	"acknowledged before stored":   {"Delivery/StorageDown", "could not store: responds with 200", storing(regardless)},
	"work inside the request":      {"Delivery/SlowHandler", "while the handler is blocked", Quickly(storing(inside))},
	"full queue drops events":      {"Delivery/SlowHandler", "handled it 0 times", Quickly(storing(dropping))},

	// Bodies.
	"anything is acknowledged": {"Bodies/Malformed", "event is lost", responding(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 400, 200) })},
	"column too short":         {"Bodies/Large", "500", rejecting(500, func(_ map[string]any, b []byte) bool { return len(b) > 64<<10 })},
	"no limit":                 {"Bodies/Limit", "to its end", configured(func(c *webhook.HandlerConfig) { c.MaxBody = 1 << 40 })},
	"limit only for chunks":    {"Bodies/Limit", "32 megabytes with a Content-Length", unlimited(func(r *http.Request) bool { return r.ContentLength >= 0 })},
	"limit only for lengths":   {"Bodies/Limit", "32 megabytes in chunks", unlimited(func(r *http.Request) bool { return r.ContentLength < 0 })},
	"one read": {"Bodies/Pieces", "in pieces", Changing(func(r *http.Request) {
		buffer := make([]byte, 64<<10)
		n, _ := r.Body.Read(buffer) // the mistake
		Replace(r, buffer[:n])
	})},
	"body += chunk": {"Bodies/Characters", "two packets but responds with 401", Changing(DecodeEach)},
	"a lock around the body": {"Bodies/BrokenOff", "sends no response within", Quickly(Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		s.reading.Lock()
		defer s.reading.Unlock()
		s.ServeHTTP(w, r)
	}))},
	"connections never end": {"Bodies/SlowLoris", "keeps the connection", Quickly(withoutReadTimeout)},
	"handler never ends": {"Bodies/BrokenOff", "keeps the handler running", Quickly(Around(func(s *Endpoint, _ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			<-s.test.Context().Done()
		}
	}))},

	// In every case.
	"410": {"Always/NeverGone", "410; seen in Signature/RawBytes, Signature/Forged", responding(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 401, 410) })},
	"work before the response": {"Always/InTime", "sends no response within 2s", Quickly(Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.ServeHTTP(w, r)
	}))},
	"panics":                      {"Always/NoCrash", "index out of range", Changing(indexHeader)},
	"challenge in every response": {"Always/TellsNothing", "without a valid signature the challenge token", responding(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Body = bytes.NewBufferString(Acknowledgement) })},
	"errors quote bodies": {"Always/TellsNothing", "the first name of the patient", Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		body := BodyOf(r)
		if !fresh(r.Header.Get("SVC-Signature"), body) {
			http.Error(w, "cannot verify "+string(body), http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	})},
	"secret in errors":    {"Always/TellsNothing", "the webhook secret", replacing("Unauthorized", "expected "+Secret)},
	"handled again later": {"Always/HandledOnce", "2 times instead of 1", storing(lateAgain)},
	"bodies in the log":   {"Always/QuietLogs", "the email of the patient", logging(func(r *http.Request) string { return string(BodyOf(r)) })},
	"secret in the log":   {"Always/QuietLogs", "the webhook secret", logging(func(*http.Request) string { return Secret })},
}

func instead(status, of, other int) int {
	if status == of {
		return other
	}
	return status
}

func logging(of func(*http.Request) string) Mutation {
	return Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		s.config.Logger.Info("received", "this", of(r))
		s.ServeHTTP(w, r)
	})
}

// Configuration of an [Endpoint], and its response to an event.
const (
	Secret    = "whsec_current_0123456789abcdef"
	OldSecret = "whsec_old_0123456789abcdef"
	Challenge = "challenge-token-0123456789"

	Acknowledgement = `{"challenge":"` + Challenge + `"}`
)

// Patience is the time limit for immediate actions, long enough for any machine.
const Patience = 2 * time.Minute

// Endpoint is a correct endpoint with every hook: the handler of package webhook with an
// in-memory inbox.
type Endpoint struct {
	*webhook.Handler
	test   testing.TB
	config webhook.HandlerConfig
	inbox  *memoryinbox.Inbox

	mu      sync.Mutex
	gate    sync.RWMutex // held for writing while handlers are blocked
	reading sync.Mutex   // used by a mutant
	broken  bool
	handled map[string]int
	logs    bytes.Buffer
}

// New returns an endpoint after applying changes to its configuration. It closes the endpoint
// after the test.
func New(t testing.TB, changes ...func(*webhook.HandlerConfig)) *Endpoint {
	t.Helper()
	s := &Endpoint{test: t, handled: map[string]int{}}
	var err error
	s.inbox, err = memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: s.handle, Workers: 1}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.inbox.Close(context.Background()) })
	s.config = webhook.HandlerConfig{
		Environment: api.USSandbox,
		Secrets:     []api.Secret{api.NewSecret(Secret), api.NewSecret(OldSecret)},
		Challenge:   api.NewSecret(Challenge),
		Inbox:       s,
		Logger:      slog.New(slog.NewJSONHandler(s, nil)),

		AcceptTimeout: Patience,
	}
	for _, change := range changes {
		change(&s.config)
	}
	s.Handler, err = webhook.NewHandler(s.config)
	require.NoError(t, err)
	return s
}

// Accept implements [webhook.Inbox]. It fails while the storage is broken.
func (s *Endpoint) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if read(s, func() bool { return s.broken }) {
		return webhook.Receipt{}, errors.New("the disk is full")
	}
	return s.inbox.Accept(ctx, d)
}

func (s *Endpoint) handle(_ context.Context, e events.Event) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[e.ID]++
	return nil
}

// Write implements [io.Writer]. It stores the lines of the log.
func (s *Endpoint) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.Write(line)
}

// read returns a value guarded by mu.
func read[T any](s *Endpoint, value func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return value()
}

// Target returns a target for a handler that passes requests to the endpoint.
func (s *Endpoint) Target(handler http.Handler) receivercheck.Target {
	return receivercheck.Target{
		Handler: handler, Secret: Secret, Challenge: Challenge,
		Hooks: receivercheck.Hooks{
			BlockHandler: func(blocked bool) {
				if blocked {
					s.gate.Lock()
					return
				}
				s.gate.Unlock()
			},
			BreakStorage: func(broken bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.broken = broken
			},
			Handled: func(eventID string) int { return read(s, func() int { return s.handled[eventID] }) },
			Logs:    func() string { return read(s, s.logs.String) },
			WithoutSecret: func() (http.Handler, error) {
				config := s.config
				config.Secrets = nil
				return webhook.NewHandler(config)
			},
		},
		Features: receivercheck.Features{OldSecret: OldSecret, OtherEnvelopes: true},
		Timing:   receivercheck.Timing{Timeout: Patience, Patience: Patience},
	}
}
