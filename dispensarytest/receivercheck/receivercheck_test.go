package receivercheck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

const (
	webhookSecret    = "whsec_current_0123456789abcdef"
	oldWebhookSecret = "whsec_old_0123456789abcdef"
	challengeToken   = "challenge-token-0123456789"

	acknowledgement = `{"challenge":"` + challengeToken + `"}`
)

// patient is a limit for what should happen at once, on a machine of any speed.
const patient = 2 * time.Minute

// fixture is an endpoint that is checked: the handler of package webhook on an
// inbox in memory, with every hook.
type fixture struct {
	*webhook.Handler
	test   testing.TB
	config webhook.HandlerConfig
	inbox  *memoryinbox.Inbox

	mu      sync.Mutex
	gate    sync.RWMutex // held for writing while handlers are blocked
	reading sync.Mutex   // of a mutant
	broken  bool
	handled map[string]int
	logs    bytes.Buffer
}

func newFixture(t testing.TB, changes ...func(*webhook.HandlerConfig)) *fixture {
	t.Helper()
	s := &fixture{test: t, handled: map[string]int{}}
	var err error
	s.inbox, err = memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: s.handle, Workers: 1}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.inbox.Close(context.Background()) })
	s.config = webhook.HandlerConfig{
		Environment: api.Environment{Region: api.US, Stage: api.Sandbox},
		Secrets:     []api.Secret{api.NewSecret(webhookSecret), api.NewSecret(oldWebhookSecret)},
		Challenge:   api.NewSecret(challengeToken),
		Inbox:       s,
		Logger:      slog.New(slog.NewJSONHandler(s, nil)),

		AcceptTimeout: patient,
	}
	for _, change := range changes {
		change(&s.config)
	}
	s.Handler, err = webhook.NewHandler(s.config)
	require.NoError(t, err)
	return s
}

// Accept is that of the inbox, as long as the storage works.
func (s *fixture) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if s.isBroken() {
		return webhook.Receipt{}, errors.New("the disk is full")
	}
	return s.inbox.Accept(ctx, d)
}

func (s *fixture) handle(_ context.Context, e events.Event) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[e.ID]++
	return nil
}

// Write takes a line of the log.
func (s *fixture) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.Write(line)
}

func (s *fixture) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// target describes a handler that leads to the endpoint.
func (s *fixture) target(handler http.Handler) receivercheck.Target {
	return receivercheck.Target{
		Handler: handler, Secret: webhookSecret, Challenge: challengeToken,
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
			Handled: func(eventID string) int {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.handled[eventID]
			},
			Logs: func() string {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.logs.String()
			},
			WithoutSecret: func() (http.Handler, error) {
				config := s.config
				config.Secrets = nil
				return webhook.NewHandler(config)
			},
		},
		Features: receivercheck.Features{OldSecret: oldWebhookSecret, OtherEnvelopes: true},
		Timing:   receivercheck.Timing{Timeout: patient, Patience: patient},
	}
}

func TestOurHandlerPasses(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	receivercheck.Run(t, s.target(s))
}

func TestOurHandlerPassesBehindAServer(t *testing.T) {
	t.Parallel()
	s := newFixture(t, func(c *webhook.HandlerConfig) { c.AnswerUnsignedProbe = true })
	const bodyTimeout = 2 * time.Second
	mux := http.NewServeMux()
	mux.HandleFunc("/dispensary/webhooks", func(w http.ResponseWriter, r *http.Request) {
		// As the server's ReadTimeout would, which also bounds the fifty
		// handshakes that come at once.
		assert.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)))
		s.ServeHTTP(w, r)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	r := s.target(nil)
	r.Handler, r.URL, r.Client = nil, server.URL+"/dispensary/webhooks", server.Client()
	r.Timing.BodyTimeout, r.Features.UnsignedProbe = bodyTimeout, true
	receivercheck.Run(t, r)
}

// Over a connection nothing joins what was sent in two parts. The receiver may be
// too slow to see that there are two, and then is asked again.
func TestCharactersAreCutOnTheWireToo(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { decodeEach(r); s.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	r := s.target(nil)
	r.Handler, r.URL, r.Client = nil, server.URL, server.Client()
	require.Eventually(t, func() bool {
		verdict, err := receivercheck.ExamineCase(t.Context(), r, "Bodies/Characters")
		return err == nil && strings.Contains(verdict.String(), "two packets was answered with 401")
	}, time.Minute, time.Millisecond)
}

// TestMistakesAreFailures runs the checks of a mutant in another process, where
// they have to fail.
func TestMistakesAreFailures(t *testing.T) {
	t.Parallel()
	suite := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestMutant$", "-test.count=1", "-test.v")
	suite.Env = append(os.Environ(), "DISPENSARY_TEST_MUTANT=202")
	output, err := suite.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "the check is content")
	for _, want := range []string{
		"--- FAIL: TestMutant/Challenge/Answer", "has the status 202: only 200 and 201 count", "In production: ", "Fix: ",
		"--- PASS: TestMutant/Signature/Valid",
		"--- SKIP: TestMutant/Bodies/SlowLoris", "needs Target.Timing.BodyTimeout, how long the server waits for a body",
	} {
		assert.Contains(t, string(output), want)
	}
}

// TestMutant is the check in the process of a mutant.
func TestMutant(t *testing.T) {
	m, ok := mutants[os.Getenv("DISPENSARY_TEST_MUTANT")]
	if !ok {
		t.Skip("runs in the process that TestMistakesAreFailures starts")
	}
	s := newFixture(t)
	r := s.target(s)
	m.breaks(s, &r)
	receivercheck.Run(t, r)
}

// Without hooks fewer cases are run, and the others say what they need.
func TestRunWithoutHooks(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	verdicts, err := receivercheck.Examine(t.Context(), receivercheck.Target{Handler: s, Secret: webhookSecret, Challenge: challengeToken})
	require.NoError(t, err)
	var skipped []string
	for _, v := range verdicts {
		assert.False(t, v.Failed(), "%s", v)
		if v.Skipped != "" {
			assert.Regexp(t, "^needs Target[.][A-Z]\\w+[.][A-Z]\\w+, ", v.Skipped)
			assert.Equal(t, v.Case+": skipped: "+v.Skipped, v.String())
			skipped = append(skipped, v.Case)
		}
	}
	assert.Equal(t, []string{
		"Signature/Replayed", "Signature/Rotated", "Signature/FailsClosed", "Events/Payload", "Events/Bare", "Delivery/StorageDown", "Delivery/SlowHandler",
		"Bodies/SlowLoris", "Always/HandledOnce", "Always/QuietLogs",
	}, skipped)
	assert.Equal(t, "Signature/Valid: passed", verdicts[0].String())
}

// The receiver's clock and its tolerance are its own.
func TestRunOnAnotherClock(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) }
	s := newFixture(t, func(c *webhook.HandlerConfig) { c.Now, c.Tolerance = now, 40*time.Second })
	r := s.target(s)
	r.Timing.Now, r.Timing.Tolerance, r.Hooks.EventType = now, 40*time.Second, "treatment_plan.created"
	receivercheck.Run(t, r)
}

func TestRunWithoutAReceiver(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	verdicts, err := receivercheck.Examine(t.Context(), receivercheck.Target{URL: server.URL, Secret: webhookSecret, Challenge: challengeToken})
	require.NoError(t, err)
	assert.True(t, verdicts[0].Failed())
	for _, v := range verdicts[1:] {
		assert.Equal(t, "nothing listens at "+server.URL, v.Skipped, v.Case)
	}
}

func TestReceiverIsDescribed(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*receivercheck.Target){
		"receivercheck.Target needs one of Handler and URL":              func(r *receivercheck.Target) { r.Handler = nil },
		"receivercheck.Target needs one of Handler and URL ":             func(r *receivercheck.Target) { r.URL = "https://example.com" },
		"receivercheck.Target.Secret is missing":                         func(r *receivercheck.Target) { r.Secret = "" },
		"receivercheck.Target.Challenge is missing":                      func(r *receivercheck.Target) { r.Challenge = "" },
		"receivercheck.Target.Secret equals Challenge":                   func(r *receivercheck.Target) { r.Challenge = r.Secret },
		"receivercheck.Target.Timing holds a negative duration":          func(r *receivercheck.Target) { r.Timing.Tolerance = -1 },
		"receivercheck.Target.Hooks.EventType is not one of clinic_key.": func(r *receivercheck.Target) { r.Hooks.EventType = "order.place" },
		"receivercheck.Target.Path does not begin with a slash":          func(r *receivercheck.Target) { r.Path = "webhooks" },
		"receivercheck.Target.URL is not an absolute HTTP address":       func(r *receivercheck.Target) { r.Handler, r.URL = nil, "localhost:80" },
	} {
		r := receivercheck.Target{Handler: http.NotFoundHandler(), Secret: webhookSecret, Challenge: challengeToken}
		change(&r)
		_, err := receivercheck.Examine(t.Context(), r)
		require.ErrorIs(t, err, api.ErrInvalidArgument)
		assert.ErrorContains(t, err, strings.TrimSpace(says))
	}
}

// toTheLetter is a receiver by hand that takes what the API documents,
// {"event":{…}}, and the empty test call, and refuses everything else.
func toTheLetter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
	var sent struct {
		Event struct{ ID, Type string }
	}
	switch {
	case err != nil:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	case !anyFresh(r.Header.Get("SVC-Signature"), body):
		w.WriteHeader(http.StatusUnauthorized)
		return
	case len(body) > 0 && (!bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || json.Unmarshal(body, &sent) != nil || sent.Event.ID == "" || sent.Event.Type == ""):
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, acknowledgement)
}

func TestReceiverToTheLetterPasses(t *testing.T) {
	t.Parallel()
	verdicts, err := receivercheck.Examine(t.Context(), receivercheck.Target{
		Handler: http.HandlerFunc(toTheLetter), Secret: webhookSecret, Challenge: challengeToken, Timing: receivercheck.Timing{Timeout: patient},
	})
	require.NoError(t, err)
	skipped := map[string]string{}
	for _, v := range verdicts {
		assert.False(t, v.Failed(), "%s", v)
		skipped[v.Case] = v.Skipped
	}
	for _, envelope := range []string{"Events/Payload", "Events/Bare"} {
		assert.Contains(t, skipped[envelope], "Target.Features.OtherEnvelopes")
	}
}

// TestSkippedCasesAreNamed runs a check that passes in another process, without -v.
func TestSkippedCasesAreNamed(t *testing.T) {
	t.Parallel()
	suite := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPlainReceiver$", "-test.count=1")
	suite.Env = append(os.Environ(), "DISPENSARY_TEST_PLAIN=1")
	output, err := suite.CombinedOutput()
	require.NoError(t, err, "%s", output)
	var said []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "receivercheck:") {
			said = append(said, line)
		}
	}
	require.Len(t, said, 1, "%s", output)
	for _, want := range []string{
		"receivercheck: TestPlainReceiver did not run 10 of 44 cases: ",
		"Signature/Replayed, Always/HandledOnce (needs Target.Hooks.Handled, which tells how often an event was handled)",
		"Delivery/StorageDown (needs Target.Hooks.BreakStorage, ",
	} {
		assert.Contains(t, said[0], want)
	}
}

// TestPlainReceiver is a check without hooks, in the process of another test.
func TestPlainReceiver(t *testing.T) {
	if os.Getenv("DISPENSARY_TEST_PLAIN") == "" {
		t.Skip("runs in the process that TestSkippedCasesAreNamed starts")
	}
	s := newFixture(t)
	receivercheck.Run(t, receivercheck.Target{Handler: s, Secret: webhookSecret, Challenge: challengeToken, Timing: receivercheck.Timing{Timeout: patient}})
}
