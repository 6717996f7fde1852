package receivercheck_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook"
)

// mutants are our handler with one mistake each, as real receivers have made
// them, by the case that has to find it, and words of what it says.
var mutants = map[string]struct {
	fails, says string
	breaks      mutation
}{
	// Signatures.
	"challenge token for secret": {"Signature/Valid", "wrong value of the dashboard", configured(func(c *webhook.HandlerConfig) { c.Secrets, c.Challenge = []api.Secret{c.Challenge}, c.Secrets[0] })},
	"body read by a middleware":  {"Signature/Valid", "read or rewritten by something in front", changing(func(r *http.Request) { r.Body = http.NoBody })},
	"body encoded again":         {"Signature/RawBytes", "unusual white space", changing(func(r *http.Request) { replace(r, compact(bodyOf(r))) })},
	"signature of other bytes":   {"Signature/RawBytes", "the same JSON", trusting(func(h string, b []byte) bool { return fresh(h, b) || verified(h, compact(b)) })},
	"signature not checked":      {"Signature/Forged", "another secret", trusting(func(h string, _ []byte) bool { return h != "" })},
	"signature of the body alone": {"Signature/Forged", "leaves the timestamp out", trusting(func(h string, b []byte) bool {
		_, v1 := parts(h)
		return fresh(h, b) || v1 == mac("", b)
	})},
	"as many digits as there are": {"Signature/Forged", "first half", trusting(func(h string, b []byte) bool {
		t, v1 := parts(h)
		return v1 != "" && strings.HasPrefix(mac(t+".", b), v1)
	})},
	"signature is optional": {"Signature/Missing", "without a signature", trusting(func(h string, b []byte) bool { return h == "" || fresh(h, b) })},
	"header is indexed":     {"Signature/Malformed", "got no answer", changing(indexHeader)},
	"no tolerance":          {"Signature/Stale", "24h0m0s ago", trusting(verified)},
	"tolerance of one side": {"Signature/Future", "in the future", trusting(func(h string, b []byte) bool { return verified(h, b) && age(h) < 5*time.Minute })},
	"tolerance of a minute": {"Signature/Drift", "was answered with 401", configured(func(c *webhook.HandlerConfig) { c.Tolerance = time.Minute })},
	"replays are handled":   {"Signature/Replayed", "handled 2 times", storing(keyed(newKey))},
	"first v1 only": {"Signature/TwoSignatures", "wrong and a right", changing(func(r *http.Request) {
		elements := strings.Split(r.Header.Get("SVC-Signature"), ",")
		r.Header.Set("SVC-Signature", strings.Join(elements[:min(2, len(elements))], ","))
	})},
	"old secret refused": {"Signature/Rotated", "the old secret", configured(func(c *webhook.HandlerConfig) { c.Secrets = c.Secrets[:1] })},
	"open without a secret": {"Signature/FailsClosed", "unsigned was answered with 200", func(s *fixture, r *receivercheck.Target) {
		open := *r
		trusting(func(string, []byte) bool { return true })(s, &open)
		r.Hooks.WithoutSecret = func() (http.Handler, error) { return open.Handler, nil }
	}},

	// The challenge.
	"202": {"Challenge/Answer", "status 202", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 200, 202) })},
	"no challenge on events": {"Challenge/Answer", "no body", answering(func(r *http.Request, a *httptest.ResponseRecorder) {
		if r.ContentLength != 0 {
			a.Body.Reset()
		}
	})},
	"secret for challenge":      {"Challenge/Answer", "carries the webhook secret", replacing(challengeToken, webhookSecret)},
	"challenge of elsewhere":    {"Challenge/Answer", "another challenge", replacing(challengeToken, "challenge-of-production")},
	"bare challenge":            {"Challenge/Answer", "not a JSON object", replacing(acknowledgement, challengeToken)},
	"challenge and more":        {"Challenge/Answer", "more members", replacing(`{`, `{"ok":true,`)},
	"challenge under a wrapper": {"Challenge/Answer", "no member challenge", replacing(`"challenge"`, `"data"`)},
	"challenge as text":         {"Challenge/Answer", "text/plain", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Header().Set("Content-Type", "text/plain") })},
	"probe is no event":         {"Challenge/Probe", "400", refusing(400, func(_ map[string]any, b []byte) bool { return len(b) == 0 })},
	"probes for everybody":      {"Challenge/UnsignedProbe", "without a signature was answered with 200", configured(func(c *webhook.HandlerConfig) { c.AnswerUnsignedProbe = true })},
	"probes for nobody":         {"Challenge/UnsignedProbe", "was answered with 401", func(_ *fixture, r *receivercheck.Target) { r.Features.UnsignedProbe = true }},
	"any method":                {"Challenge/OnlyPost", "by GET", changing(func(r *http.Request) { r.Method = http.MethodPost })},

	// Events.
	"two types are known": {"Events/EveryType", "product.updated", refusing(400, func(e map[string]any, _ []byte) bool {
		return e["type"] != "order.placed" && e["type"] != "patient.updated"
	})},
	"unknown types are refused":  {"Events/UnknownType", "archived", refusing(400, func(e map[string]any, _ []byte) bool { return e["type"] == "treatment_plan.archived" })},
	"unknown fields are refused": {"Events/UnknownFields", "unknown fields", refusing(422, strict)},
	"clinic id is taken for granted": {"Events/MissingFields", "without clinic_id got no answer", refusing(400, func(e map[string]any, _ []byte) bool {
		return e["clinic_id"].(string) == "" // panics
	})},
	"data decoded first":      {"Events/OtherForms", "in strings", refusing(400, typed)},
	"orders are wrapped":      {"Events/Wrapping", "order.placed with its fields in data ", refusing(400, wants("order"))},
	"orders are not wrapped":  {"Events/Wrapping", "data.order", refusing(400, wants("order_number"))},
	"event is on top":         {"Events/Payload", "event_payload", refusing(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"event_payload"`)) })},
	"event needs its wrapper": {"Events/Bare", "without a wrapper", refusing(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"id"`)) })},

	// Delivery.
	"duplicates are conflicts":        {"Delivery/Repeated", "409", refusing(409, known())},
	"duplicates without challenge":    {"Always/Acknowledged", "has no body; seen in", refusing(200, known())},
	"no de-duplication":               {"Delivery/Repeated", "handled 3 times", storing(keyed(newKey))},
	"look, then insert":               {"Delivery/Concurrent", "times and not 1", storing(checkThenAct)},
	"copies at once are refused":      {"Delivery/Concurrent", "403", oneAtATime()},
	"one integration":                 {"Delivery/Integrations", "handled 1 times", quickly(storing(keyed(func(k *webhook.Key) { k.IntegrationID = "" })))},
	"only what is newer":              {"Delivery/Reordered", "an hour older", refusing(409, newest())},
	"acknowledged before it is there": {"Delivery/StorageDown", "could not be stored was answered with 200", storing(regardless)},
	"work inside of the request":      {"Delivery/SlowHandler", "takes its time", quickly(storing(inside))},
	"a queue that is full drops":      {"Delivery/SlowHandler", "handled 0 times", quickly(storing(dropping))},

	// Bodies.
	"anything is acknowledged": {"Bodies/Malformed", "is lost", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 400, 200) })},
	"a column is too short":    {"Bodies/Large", "500", refusing(500, func(_ map[string]any, b []byte) bool { return len(b) > 64<<10 })},
	"no limit":                 {"Bodies/Limit", "read to its end", configured(func(c *webhook.HandlerConfig) { c.MaxBody = 1 << 40 })},
	"limit of chunks alone":    {"Bodies/Limit", "32 megabytes with a Content-Length", unlimited(func(r *http.Request) bool { return r.ContentLength >= 0 })},
	"limit of lengths alone":   {"Bodies/Limit", "32 megabytes in chunks", unlimited(func(r *http.Request) bool { return r.ContentLength < 0 })},
	"one read": {"Bodies/Pieces", "in pieces", changing(func(r *http.Request) {
		buffer := make([]byte, 64<<10)
		n, _ := r.Body.Read(buffer) // the mistake
		replace(r, buffer[:n])
	})},
	"body += chunk": {"Bodies/Characters", "two packets was answered with 401", changing(decodeEach)},
	"a lock around the body": {"Bodies/BrokenOff", "was not answered within", quickly(around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		s.reading.Lock()
		defer s.reading.Unlock()
		s.ServeHTTP(w, r)
	}))},
	"connections never end": {"Bodies/SlowLoris", "keeps its connection", quickly(withoutReadTimeout)},
	"reads on and on": {"Bodies/BrokenOff", "has not ended", quickly(around(func(s *fixture, _ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			<-s.test.Context().Done()
		}
	}))},

	// In every case.
	"410": {"Always/NeverGone", "410; seen in Signature/RawBytes, Signature/Forged", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 401, 410) })},
	"work before the answer": {"Always/InTime", "not answered within 2s", quickly(around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.ServeHTTP(w, r)
	}))},
	"panics":                  {"Always/NoCrash", "index out of range", changing(indexHeader)},
	"challenge for everybody": {"Always/TellsNothing", "does not verify the challenge token", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Body = bytes.NewBufferString(acknowledgement) })},
	"errors that quote": {"Always/TellsNothing", "the first name of the patient", around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		body := bodyOf(r)
		if !fresh(r.Header.Get("SVC-Signature"), body) {
			http.Error(w, "cannot verify "+string(body), http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	})},
	"secrets for everybody":       {"Always/TellsNothing", "the webhook secret", replacing("Unauthorized", "expected "+webhookSecret)},
	"handled again after a while": {"Always/HandledOnce", "handled 2 times", storing(lateAgain)},
	"the log has it all":          {"Always/QuietLogs", "the e-mail address of the patient", logging(func(r *http.Request) string { return string(bodyOf(r)) })},
	"the log has the secret":      {"Always/QuietLogs", "the webhook secret", logging(func(*http.Request) string { return webhookSecret })},
}

func instead(status, of, other int) int {
	if status == of {
		return other
	}
	return status
}

func logging(of func(*http.Request) string) mutation {
	return around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		s.config.Logger.Info("received", "this", of(r))
		s.ServeHTTP(w, r)
	})
}

func TestEveryMistakeIsFound(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			r := s.target(s)
			m.breaks(s, &r)
			verdict, err := receivercheck.ExamineCase(t.Context(), r, m.fails)
			require.NoError(t, err)
			require.True(t, verdict.Failed(), "%s", verdict)
			assert.Contains(t, strings.Join(verdict.Findings, "\n"), m.says)
			for _, secret := range []string{webhookSecret, oldWebhookSecret, challengeToken} {
				assert.NotContains(t, verdict.String(), secret)
			}
		})
	}
}

// Without its mistake the same endpoint passes, and every case has a mutant.
func TestEveryCaseFindsSomething(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	verdicts, err := receivercheck.Examine(t.Context(), s.target(s))
	require.NoError(t, err)
	found := map[string]bool{}
	for _, m := range mutants {
		found[m.fails] = true
	}
	for _, v := range verdicts {
		assert.False(t, v.Failed(), "%s", v)
		assert.True(t, found[v.Case], "no mutant fails %s", v.Case)
		assert.NotEmpty(t, v.Consequence, v.Case)
		assert.NotEmpty(t, v.Fix, v.Case)
	}
}

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
	for name, c := range map[string]struct {
		breaks        mutation
		fails         string
		says, saysNot string
		inConsequence string
	}{
		"never in time": {
			quickly(around(func(_ *fixture, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })),
			"Always/InTime", "not answered within 2s; seen in Signature/Valid\n  another one was not answered within 2s either", "HMAC", "stops waiting",
		},
		"the name of the header as it is written": {
			changing(func(r *http.Request) {
				//lint:ignore SA1008 that is the mistake
				values := r.Header["SVC-Signature"]
				r.Header.Set("SVC-Signature", strings.Join(values, ""))
			}),
			"Signature/Valid", "sent as SVC-Signature it is accepted: the endpoint minds the case of a header's name", "body is", "every webhook fails",
		},
		"another secret": {
			func(_ *fixture, r *receivercheck.Target) { r.Secret, r.Features.OldSecret = "whsec_of_production", "" },
			"Signature/Valid", "the endpoint verifies with another secret", "the secret is right", "every webhook fails",
		},
		"written again with spaces": {
			changing(func(r *http.Request) { replace(r, bytes.ReplaceAll(bodyOf(r), []byte(":"), []byte(": "))) }),
			"Signature/Valid", "the secret is right, and the body is probably read or rewritten", "header's name", "every webhook fails",
		},
		"fails": {
			around(func(_ *fixture, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			}),
			"Signature/Valid", "was answered with 500", "secret", "every webhook fails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			r := s.target(s)
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

// A receiver that is slow only at first fails one case; the others are run.
func TestASlowStartIsNoMore(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	r := s.target(s)
	var asked atomic.Bool
	around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
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
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !anyFresh(r.Header.Get("SVC-Signature"), bodyOf(r)) {
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
