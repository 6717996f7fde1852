package receivercheck_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/internal/testkit/mistakes"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// examineCase returns the verdict of one case.
func examineCase(t *testing.T, r receivercheck.Target, name string) receivercheck.Verdict {
	t.Helper()
	r.Cases = regexp.MustCompile("^" + name + "$")
	verdicts, err := receivercheck.Examine(t.Context(), r)
	require.NoError(t, err)
	return verdicts[len(verdicts)-1]
}

func TestCasesFindMistakes(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for name, m := range mistakes.All {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mistakes.New(t)
			r := s.Target(s)
			m.Breaks(s, &r)
			verdict := examineCase(t, r, m.Case)
			require.True(t, verdict.Failed(), "%s", verdict)
			assert.Contains(t, strings.Join(verdict.Findings, "\n"), m.Says)
			for _, secret := range []string{mistakes.Secret, mistakes.OldSecret, mistakes.Challenge} {
				assert.NotContains(t, verdict.String(), secret)
			}
		})
	}
}

// The correct endpoint passes every case, and every case has a mutant.
func TestEveryCaseHasMutant(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	verdicts, err := receivercheck.Examine(t.Context(), s.Target(s))
	require.NoError(t, err)
	found := map[string]bool{}
	for _, m := range mistakes.All {
		found[m.Case] = true
	}
	for _, v := range verdicts {
		assert.False(t, v.Failed(), "%s", v)
		assert.True(t, found[v.Case], "no mutant fails %s", v.Case)
		assert.NotEmpty(t, v.Consequence, v.Case)
		assert.NotEmpty(t, v.Fix, v.Case)
	}
}

// examine returns the failed verdicts and the number of cases skipped with a reason that contains
// words.
func examine(t *testing.T, r receivercheck.Target, words string) (failed []receivercheck.Verdict, skipped int) {
	t.Helper()
	verdicts, err := receivercheck.Examine(t.Context(), r)
	require.NoError(t, err)
	for _, v := range verdicts {
		switch {
		case v.Failed():
			failed = append(failed, v)
		case strings.Contains(v.Skipped, words):
			skipped++
		}
	}
	return failed, skipped
}

// A mistake in every response is reported once, with its cause.
func TestCommonCauseIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks        mistakes.Mutation
		fails         string
		says, saysNot string
		inConsequence string
	}{
		"never in time": {
			mistakes.Quickly(mistakes.Around(func(_ *mistakes.Endpoint, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })),
			"Always/InTime", "sends no response within 2s; seen in Signature/Valid\n  sends no response to a second event within 2s either", "HMAC", "stops waiting",
		},
		"case-sensitive header name": {
			mistakes.Changing(func(r *http.Request) {
				//lint:ignore SA1008 the mistake under test
				values := r.Header["SVC-Signature"]
				r.Header.Set("SVC-Signature", strings.Join(values, ""))
			}),
			"Signature/Valid", "accepts the event if the header is sent as SVC-Signature: the endpoint distinguishes the case of header names", "body is", "every webhook fails",
		},
		"another secret": {
			func(_ *mistakes.Endpoint, r *receivercheck.Target) {
				r.Secret, r.Features.OldSecret = "whsec_of_production", ""
			},
			"Signature/Valid", "the endpoint verifies with a secret other than", "the secret is correct", "every webhook fails",
		},
		"encoded again with spaces": {
			mistakes.Changing(func(r *http.Request) {
				mistakes.Replace(r, bytes.ReplaceAll(mistakes.BodyOf(r), []byte(":"), []byte(": ")))
			}),
			"Signature/Valid", "the secret is correct, and the body is probably read or rewritten", "header names", "every webhook fails",
		},
		"internal server error": {
			mistakes.Around(func(_ *mistakes.Endpoint, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			}),
			"Signature/Valid", "responds with 500", "secret", "every webhook fails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mistakes.New(t)
			r := s.Target(s)
			c.breaks(s, &r)
			failed, skipped := examine(t, r, "see "+c.fails)
			require.Len(t, failed, 1, "%s", failed)
			assert.Equal(t, c.fails, failed[0].Case)
			findings := "  " + strings.Join(failed[0].Findings, "\n  ")
			assert.Contains(t, findings, c.says)
			assert.NotContains(t, findings, c.saysNot)
			assert.Contains(t, failed[0].Consequence, c.inConsequence)
			assert.Greater(t, skipped, 30)
		})
	}
}

// A receiver with only a slow first response fails one case. All other cases run.
func TestSlowFirstResponseFailsOneCase(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	r := s.Target(s)
	var asked atomic.Bool
	mistakes.Around(func(s *mistakes.Endpoint, w http.ResponseWriter, r *http.Request) {
		if !asked.Swap(true) {
			<-r.Context().Done()
			return
		}
		s.ServeHTTP(w, r)
	})(s, &r)
	r.Timing.Timeout = 5 * time.Second
	failed, skipped := examine(t, r, "see Always/InTime")
	require.Len(t, failed, 1, "%s", failed)
	assert.Contains(t, failed[0].String(), "seen in Signature/Valid")
	assert.Equal(t, "Always/InTime", failed[0].Case)
	assert.Zero(t, skipped)
}

// Some servers respond with 501 to a method that they do not know. An event and the challenge token
// are safe with any error.
func TestAnyErrorRejectsMethod(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	r := s.Target(s)
	mistakes.Around(func(s *mistakes.Endpoint, w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "Unsupported method", http.StatusNotImplemented)
			return
		}
		s.ServeHTTP(w, r)
	})(s, &r)
	verdict := examineCase(t, r, "Challenge/OnlyPost")
	assert.False(t, verdict.Failed(), "%s", verdict)
	assert.Empty(t, verdict.Skipped)
}

// An empty log does not prove that the endpoint logs no secret.
func TestEmptyLogSkipsCase(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	r := s.Target(s)
	r.Hooks.Logs = func() string { return "" }
	verdict := examineCase(t, r, "Always/QuietLogs")
	assert.False(t, verdict.Failed(), "%s", verdict)
	assert.Equal(t, "the log is empty", verdict.Skipped)
	assert.Empty(t, verdict.Needs)
}

// If the process of a receiver ends, the report names the last case with a running process.
func TestCrashedReceiverIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := mistakes.New(t)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mistakes.AnyFresh(r.Header.Get("SVC-Signature"), mistakes.BodyOf(r)) {
			_ = server.Listener.Close()
			server.CloseClientConnections()
			panic(http.ErrAbortHandler)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	r := s.Target(nil)
	r.Handler, r.URL = nil, server.URL
	failed, skipped := examine(t, r, "since Signature/Forged")
	require.Len(t, failed, 2, "%s", failed)
	assert.Equal(t, "Signature/RawBytes", failed[0].Case, "the case that crashed the receiver")
	assert.Equal(t, "Signature/Forged", failed[1].Case, "the case that could not connect")
	assert.Greater(t, skipped, 30)
}
