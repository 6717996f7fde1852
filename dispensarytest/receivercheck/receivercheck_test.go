package receivercheck_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/internal/testkit/mistakes"
	"github.com/dispensary-go/dispensary/webhook"
)

// onSockets returns a target with the URL of a server for the endpoint.
func onSockets(t *testing.T, s *mistakes.Endpoint, handler http.HandlerFunc) receivercheck.Target {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	r := s.Target(nil)
	r.Handler, r.URL, r.Client = nil, server.URL, server.Client()
	return r
}

func TestHandlerPassesBehindServer(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t, func(c *webhook.HandlerConfig) { c.RespondUnsignedProbe = true })
	const bodyTimeout = 10 * time.Second
	r := onSockets(t, s, func(w http.ResponseWriter, r *http.Request) {
		// Like the ReadTimeout of the server. That one would also limit the fifty concurrent
		// handshakes.
		assert.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)))
		s.ServeHTTP(w, r)
	})
	r.Timing.BodyTimeout, r.Features.UnsignedProbe = bodyTimeout, true
	receivercheck.Run(t, r)
}

// A connection keeps the two parts of a body separate. A slow receiver may read both at once, so
// the test repeats the case.
func TestSocketSplitsCharacters(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	r := onSockets(t, s, func(w http.ResponseWriter, r *http.Request) {
		mistakes.DecodeEach(r)
		s.ServeHTTP(w, r)
	})
	require.Eventually(t, func() bool {
		verdict := examineCase(t, r, "Bodies/Characters")
		return strings.Contains(verdict.String(), "two packets but responds with 401")
	}, time.Minute, time.Millisecond)
}

// elsewhere runs TestMutant in another process and returns its output.
func elsewhere(t *testing.T, mutant string, flags ...string) (string, error) {
	suite := exec.CommandContext(t.Context(), os.Args[0], append(flags, "-test.run", "^TestMutant$", "-test.count=1")...)
	suite.Env = append(os.Environ(), "DISPENSARY_TEST_MUTANT="+mutant)
	output, err := suite.CombinedOutput()
	return string(output), err
}

// TestMutant checks a mutant, or a receiver without hooks, in a separate process.
func TestMutant(t *testing.T) {
	name := os.Getenv("DISPENSARY_TEST_MUTANT")
	s := mistakes.New(t)
	r := s.Target(s)
	switch m, ok := mistakes.All[name]; {
	case ok:
		m.Breaks(s, &r)
	case name == "no hooks":
		r.Hooks, r.Features = receivercheck.Hooks{}, receivercheck.Features{}
	default:
		t.Skip("runs only in a process started by another test")
	}
	receivercheck.Run(t, r)
}

func TestRunFailsOnMistake(t *testing.T) {
	t.Parallel()
	output, err := elsewhere(t, "202", "-test.v")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "the check must fail")
	for _, want := range []string{
		"--- FAIL: TestMutant/Challenge/Response", "has status 202: only 200 and 201 count", "In production: ", "Fix: ",
		"--- PASS: TestMutant/Signature/Valid",
		"--- SKIP: TestMutant/Bodies/SlowLoris", "needs Target.Timing.BodyTimeout, the time that the server waits for a body",
	} {
		assert.Contains(t, output, want)
	}
}

// One line names the skipped cases, even without -v.
func TestRunNamesSkippedCases(t *testing.T) {
	t.Parallel()
	output, err := elsewhere(t, "no hooks")
	require.NoError(t, err, output)
	assert.Equal(t, 1, strings.Count(output, "receivercheck:"), output)
	for _, want := range []string{
		"receivercheck: TestMutant did not run 10 of 44 cases: ",
		"Signature/Replayed, Always/HandledOnce (needs Target.Hooks.Handled, to count the handlings of an event)",
		"Delivery/StorageDown (needs Target.Hooks.BreakStorage, ",
	} {
		assert.Contains(t, output, want)
	}
}

// Each skipped case names the field that it needs.
func TestMissingHooksSkipCases(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	verdicts, err := receivercheck.Examine(t.Context(), receivercheck.Target{Handler: s, Secret: mistakes.Secret, Challenge: mistakes.Challenge})
	require.NoError(t, err)
	var skipped []string
	for _, v := range verdicts {
		assert.False(t, v.Failed(), "%s", v)
		if v.Skipped != "" {
			assert.Regexp(t, "^[A-Z]\\w+[.][A-Z]\\w+$", v.Needs)
			assert.True(t, strings.HasPrefix(v.Skipped, "needs Target."+v.Needs+", "), v.Skipped)
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

// A case of the section Always also judges the responses in unselected cases.
func TestOnlySelectedCasesAreReported(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	for pattern, want := range map[string][]string{
		"Missing":    {"Signature/Valid", "Signature/Missing", "Events/MissingFields"},
		"NeverGone$": {"Signature/Valid", "Always/NeverGone"},
	} {
		r := s.Target(s)
		mistakes.All["410"].Breaks(s, &r)
		r.Cases = regexp.MustCompile(pattern)
		verdicts, err := receivercheck.Examine(t.Context(), r)
		require.NoError(t, err)
		var names []string
		for _, v := range verdicts {
			names = append(names, v.Case)
			assert.Equal(t, v.Case == "Always/NeverGone", v.Failed(), "%s", v)
		}
		assert.Equal(t, want, names)
	}
}

// The target can have another clock and tolerance.
func TestRunUsesTargetClock(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) }
	s := mistakes.New(t, func(c *webhook.HandlerConfig) { c.Now, c.Tolerance = now, 40*time.Second })
	r := s.Target(s)
	r.Timing.Now, r.Timing.Tolerance, r.Hooks.EventType = now, 40*time.Second, "treatment_plan.created"
	receivercheck.Run(t, r)
}

func TestUnreachableReceiverSkipsCases(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	verdicts, err := receivercheck.Examine(t.Context(), receivercheck.Target{URL: server.URL, Secret: mistakes.Secret, Challenge: mistakes.Challenge})
	require.NoError(t, err)
	assert.True(t, verdicts[0].Failed())
	for _, v := range verdicts[1:] {
		assert.Equal(t, "no server listens at "+server.URL, v.Skipped, v.Case)
	}
}

func TestInvalidTargetIsRejected(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*receivercheck.Target){
		"receivercheck.Target needs either Handler or URL":               func(r *receivercheck.Target) { r.Handler = nil },
		"receivercheck.Target needs either Handler or URL ":              func(r *receivercheck.Target) { r.URL = "https://example.com" },
		"receivercheck.Target.Secret is missing":                         func(r *receivercheck.Target) { r.Secret = "" },
		"receivercheck.Target.Challenge is missing":                      func(r *receivercheck.Target) { r.Challenge = "" },
		"receivercheck.Target.Secret equals Challenge":                   func(r *receivercheck.Target) { r.Challenge = r.Secret },
		"receivercheck.Target.Timing contains a negative duration":       func(r *receivercheck.Target) { r.Timing.Tolerance = -1 },
		"receivercheck.Target.Hooks.EventType is not one of clinic_key.": func(r *receivercheck.Target) { r.Hooks.EventType = "order.place" },
		"receivercheck.Target.Cases matches no case":                     func(r *receivercheck.Target) { r.Cases = regexp.MustCompile("^Bodies$") },
		"receivercheck.Target.Path must begin with a slash":              func(r *receivercheck.Target) { r.Path = "webhooks" },
		"receivercheck.Target.URL is not an absolute HTTP URL":           func(r *receivercheck.Target) { r.Handler, r.URL = nil, "localhost:80" },
	} {
		r := receivercheck.Target{Handler: http.NotFoundHandler(), Secret: mistakes.Secret, Challenge: mistakes.Challenge}
		change(&r)
		_, err := receivercheck.Examine(t.Context(), r)
		require.ErrorIs(t, err, api.ErrArgument)
		assert.ErrorContains(t, err, strings.TrimSpace(says))
	}
}

// toTheLetter is a handwritten receiver. It accepts only the documented form, {"event":{…}}, and
// the empty test call.
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
	case !mistakes.AnyFresh(r.Header.Get("SVC-Signature"), body):
		w.WriteHeader(http.StatusUnauthorized)
		return
	case len(body) > 0 && (!bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || json.Unmarshal(body, &sent) != nil || sent.Event.ID == "" || sent.Event.Type == ""):
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, mistakes.Acknowledgement)
}

func TestDocumentedReceiverPasses(t *testing.T) {
	t.Parallel()
	verdicts, err := receivercheck.Examine(t.Context(), receivercheck.Target{
		Handler: http.HandlerFunc(toTheLetter), Secret: mistakes.Secret, Challenge: mistakes.Challenge, Timing: receivercheck.Timing{Timeout: mistakes.Patience},
	})
	require.NoError(t, err)
	for _, v := range verdicts {
		assert.False(t, v.Failed(), "%s", v)
	}
}
