package receivercheck_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
)

// examine returns the verdicts that failed, and how many cases were skipped with a
// reason that contains the words.
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

// A mistake that every answer shows is reported once, with its cause.
func TestOneCauseIsReportedOnce(t *testing.T) {
	t.Parallel()
	asleep := around(func(_ *fixture, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, c := range map[string]struct {
		breaks        mutation
		fails         string
		says, refers  string
		saysNot       string
		inConsequence string
	}{
		"never in time": {
			quickly(asleep), "Always/InTime", "not answered within 2s; seen in Signature/Valid\n  another one was not answered within 2s either", "see Always/InTime",
			"HMAC", "stops waiting",
		},
		"the name of the header as it is written": {
			around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
				//lint:ignore SA1008 that is the mistake
				if values := r.Header["SVC-Signature"]; len(values) > 0 {
					r.Header.Set("SVC-Signature", values[0])
				} else {
					r.Header.Del("SVC-Signature")
				}
				s.ServeHTTP(w, r)
			}),
			"Signature/Valid", "sent as SVC-Signature it is accepted: the endpoint minds the case of a header's name", "see Signature/Valid", "body is", "every webhook fails",
		},
		"another secret": {
			func(_ *fixture, r *receivercheck.Target) { r.Secret, r.Features.OldSecret = "whsec_of_production", "" },
			"Signature/Valid", "the endpoint verifies with another secret", "see Signature/Valid", "the secret is right", "every webhook fails",
		},
		"written again with spaces": {
			peeking(func(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
				var again bytes.Buffer
				if json.Indent(&again, body, "", " ") == nil {
					replace(r, again.Bytes())
				}
				s.ServeHTTP(w, r)
			}),
			"Signature/Valid", "the secret is right, and the body is probably read or rewritten", "see Signature/Valid", "header's name", "every webhook fails",
		},
		"fails": {
			around(func(_ *fixture, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			}),
			"Signature/Valid", "was answered with 500", "see Signature/Valid", "secret", "every webhook fails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			r := s.target(s)
			c.breaks(s, &r)
			failed, skipped := examine(t, r, c.refers)
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

// A receiver that is slow only at first fails one case; the others are run.
func TestASlowStartIsNoMore(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	r := s.target(s)
	var asked atomic.Bool
	quickly(around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		if !asked.Swap(true) {
			<-r.Context().Done()
			return
		}
		s.ServeHTTP(w, r)
	}))(s, &r)
	r.Timing.Timeout, r.Timing.Patience = 5*time.Second, patient
	verdicts, err := receivercheck.Examine(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, "Signature/Valid: passed", verdicts[0].String(), "the next event was answered in time")
	for _, v := range verdicts {
		assert.NotContains(t, v.Skipped, "see Always/InTime")
		if v.Case == "Always/InTime" {
			assert.Contains(t, v.String(), "seen in Signature/Valid")
		}
	}
}

// An empty log is no proof that nothing leaks.
func TestNoLogsAreNoLeak(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	r := s.target(s)
	r.Hooks.Logs = func() string { return "" }
	verdict, err := receivercheck.ExamineCase(t.Context(), r, "Always/QuietLogs")
	require.NoError(t, err)
	assert.False(t, verdict.Failed(), "%s", verdict)
	assert.Contains(t, verdict.Skipped, "Target.Hooks.Logs returned nothing")
}

// The report on a receiver whose process ends names the case after which it ended.
func TestTheEndOfAReceiverIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var server *httptest.Server
	server = httptest.NewServer(peek(s, func(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
		if !anyFresh(r.Header.Get("SVC-Signature"), body) {
			_ = server.Listener.Close()
			server.CloseClientConnections()
			panic(http.ErrAbortHandler)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	r := s.target(nil)
	r.Handler, r.URL = nil, server.URL
	failed, skipped := examine(t, r, "any more, since Signature/Forged")
	require.Len(t, failed, 2, "%s", failed)
	assert.Equal(t, "Signature/RawBytes", failed[0].Case, "where it ended")
	assert.Equal(t, "Signature/Forged", failed[1].Case, "where that was noticed")
	assert.Greater(t, skipped, 30)
}

// peek is peeking for a server.
func peek(s *fixture, front func(*fixture, http.ResponseWriter, *http.Request, []byte)) http.Handler {
	var r receivercheck.Target
	peeking(front)(s, &r)
	return r.Handler
}
