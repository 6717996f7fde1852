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
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook"
)

// impatient is for mutants that do not answer, or do not handle.
const impatient = 2 * time.Second

// mutants are our handler with one mistake each, as real receivers have made
// them, by the case that has to find it, and words of what it says.
var mutants = map[string]struct {
	fails, says string
	breaks      mutation
}{
	// Signatures.
	"challenge token for secret": {"Signature/Valid", "wrong value of the dashboard", trusting(func(h string, b []byte) bool { return verified(challengeToken, h, b) })},
	"body read by a middleware": {"Signature/Valid", "read or rewritten by something in front", peeking(func(s *fixture, w http.ResponseWriter, r *http.Request, _ []byte) {
		r.Body = http.NoBody
		s.ServeHTTP(w, r)
	})},
	"body encoded again": {"Signature/RawBytes", "unusual white space", peeking(func(s *fixture, w http.ResponseWriter, r *http.Request, b []byte) {
		replace(r, compact(b))
		s.ServeHTTP(w, r)
	})},
	"signature of other bytes": {"Signature/RawBytes", "the same JSON", trusting(func(h string, b []byte) bool { return fresh(h, b) || verified(webhookSecret, h, compact(b)) })},
	"signature not checked":    {"Signature/Forged", "another secret", trusting(func(h string, _ []byte) bool { return h != "" })},
	"signature of the body alone": {"Signature/Forged", "leaves the timestamp out", trusting(func(h string, b []byte) bool {
		_, v1 := parts(h)
		return fresh(h, b) || v1 == mac(webhookSecret, "", b)
	})},
	"as many digits as there are": {"Signature/Forged", "first half", trusting(prefix)},
	"signature is optional":       {"Signature/Missing", "without a signature", trusting(func(h string, b []byte) bool { return h == "" || fresh(h, b) })},
	"header is indexed":           {"Signature/Malformed", "got no answer", around(indexHeader)},
	"no tolerance":                {"Signature/Stale", "24h0m0s ago", trusting(func(h string, b []byte) bool { return verified(webhookSecret, h, b) })},
	"tolerance of one side":       {"Signature/Future", "in the future", trusting(func(h string, b []byte) bool { return verified(webhookSecret, h, b) && age(h) < 5*time.Minute })},
	"tolerance of a minute":       {"Signature/Drift", "was answered with 401", configured(func(c *webhook.HandlerConfig) { c.Tolerance = time.Minute })},
	"replays are handled":         {"Signature/Replayed", "handled 2 times", storing(noKeys)},
	"first v1 only":               {"Signature/TwoSignatures", "wrong and a right", around(firstSignature)},
	"old secret refused":          {"Signature/Rotated", "the old secret", configured(func(c *webhook.HandlerConfig) { c.Secrets = c.Secrets[:1] })},
	"open without a secret": {"Signature/FailsClosed", "unsigned was answered with 200", func(s *fixture, r *receivercheck.Target) {
		r.Hooks.WithoutSecret = func() (http.Handler, error) { return open(s), nil }
	}},

	// The challenge.
	"202":                       {"Challenge/Answer", "status 202", answering(func(_ *http.Request, status int, answer string) (int, string) { return instead(status, 202), answer })},
	"no challenge on events":    {"Challenge/Answer", "no body", answering(func(r *http.Request, status int, answer string) (int, string) { return status, ifProbe(r, answer, "") })},
	"secret for challenge":      {"Challenge/Answer", "carries the webhook secret", answers(challengeToken, webhookSecret)},
	"challenge of elsewhere":    {"Challenge/Answer", "another challenge", answers(challengeToken, "challenge-of-production")},
	"bare challenge":            {"Challenge/Answer", "not a JSON object", answering(func(_ *http.Request, status int, _ string) (int, string) { return status, challengeToken })},
	"challenge and more":        {"Challenge/Answer", "more members", answers(`{`, `{"ok":true,`)},
	"challenge under a wrapper": {"Challenge/Answer", "no member challenge", answers(`"challenge"`, `"data"`)},
	"challenge as text":         {"Challenge/Answer", "text/plain", around(plainText)},
	"probe is no event":         {"Challenge/Probe", "400", peeking(refuseEmpty)},
	"probes for everybody":      {"Challenge/UnsignedProbe", "without a signature was answered with 200", configured(func(c *webhook.HandlerConfig) { c.AnswerUnsignedProbe = true })},
	"probes for nobody":         {"Challenge/UnsignedProbe", "was answered with 401", func(_ *fixture, r *receivercheck.Target) { r.Features.UnsignedProbe = true }},
	"any method": {"Challenge/OnlyPost", "by GET", around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		r.Method = http.MethodPost
		s.ServeHTTP(w, r)
	})},

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
	"orders are wrapped":      {"Events/Wrapping", "order.placed with its fields in data ", refusing(400, wants("order.placed", "order"))},
	"orders are not wrapped":  {"Events/Wrapping", "data.order", refusing(400, wants("order.placed", "order_number"))},
	"event is on top":         {"Events/Payload", "event_payload", refusing(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"event_payload"`)) })},
	"event needs its wrapper": {"Events/Bare", "without a wrapper", refusing(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"id"`)) })},

	// Delivery.
	"duplicates are conflicts":        {"Delivery/Repeated", "409", duplicates(409, "")},
	"duplicates without challenge":    {"Always/Acknowledged", "has no body; seen in", duplicates(200, "")},
	"no de-duplication":               {"Delivery/Repeated", "handled 3 times", storing(noKeys)},
	"look, then insert":               {"Delivery/Concurrent", "times and not 1", storing(checkThenAct)},
	"copies at once are refused":      {"Delivery/Concurrent", "403", around(oneAtATime())},
	"one integration":                 {"Delivery/Integrations", "handled 1 times", quickly(storing(byEventID))},
	"only what is newer":              {"Delivery/Reordered", "an hour older", refusing(409, newest())},
	"acknowledged before it is there": {"Delivery/StorageDown", "could not be stored was answered with 200", storing(regardless)},
	"work inside of the request":      {"Delivery/SlowHandler", "takes its time", quickly(storing(inside))},
	"a queue that is full drops":      {"Delivery/SlowHandler", "handled 0 times", quickly(storing(dropping))},

	// Bodies.
	"anything is acknowledged": {"Bodies/Malformed", "is lost", answering(func(_ *http.Request, status int, answer string) (int, string) { return malformedIsFine(status, answer) })},
	"a column is too short":    {"Bodies/Large", "500", refusing(500, func(_ map[string]any, b []byte) bool { return len(b) > 64<<10 })},
	"no limit":                 {"Bodies/Limit", "read to its end", configured(func(c *webhook.HandlerConfig) { c.MaxBody = 1 << 40 })},
	"limit of chunks alone":    {"Bodies/Limit", "32 megabytes with a Content-Length", unlimited(func(r *http.Request) bool { return r.ContentLength >= 0 })},
	"limit of lengths alone":   {"Bodies/Limit", "32 megabytes in chunks", unlimited(func(r *http.Request) bool { return r.ContentLength < 0 })},
	"one read":                 {"Bodies/Pieces", "in pieces", around(readOnce)},
	"body += chunk":            {"Bodies/Characters", "two packets was answered with 401", around(decodeEach)},
	"a lock around the body":   {"Bodies/BrokenOff", "was not answered within", quickly(locked())},
	"connections never end":    {"Bodies/SlowLoris", "keeps its connection", quickly(withoutReadTimeout)},
	"reads on and on":          {"Bodies/BrokenOff", "has not ended", quickly(around(stubborn))},

	// In every case.
	"410":                    {"Always/NeverGone", "410; seen in Signature/RawBytes, Signature/Forged", answering(func(_ *http.Request, status int, answer string) (int, string) { return gone(status), answer })},
	"work before the answer": {"Always/InTime", "not answered within 2s", quickly(peeking(handleFirst))},
	"panics":                 {"Always/NoCrash", "index out of range", around(indexHeader)},
	"challenge for everybody": {"Always/TellsNothing", "does not verify the challenge token", answering(func(_ *http.Request, status int, _ string) (int, string) {
		return status, `{"challenge":"` + challengeToken + `"}`
	})},
	"errors that quote":           {"Always/TellsNothing", "the first name of the patient", peeking(quote)},
	"secrets for everybody":       {"Always/TellsNothing", "the webhook secret", answers("Unauthorized", "expected "+webhookSecret)},
	"handled again after a while": {"Always/HandledOnce", "handled 2 times", storing(lateAgain)},
	"the log has it all":          {"Always/QuietLogs", "the e-mail address of the patient", peeking(logBody)},
	"the log has the secret": {"Always/QuietLogs", "the webhook secret", peeking(func(s *fixture, w http.ResponseWriter, r *http.Request, _ []byte) {
		s.config.Logger.Info("compare", "with", webhookSecret)
		s.ServeHTTP(w, r)
	})},
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

// configured changes the settings.
func configured(change func(*webhook.HandlerConfig)) mutation {
	return func(s *fixture, r *receivercheck.Target) {
		change(&s.config)
		handler, err := webhook.NewHandler(s.config)
		if err != nil {
			panic(err)
		}
		r.Handler = handler
	}
}

// unlimited reads whole bodies of the requests that match.
func unlimited(match func(*http.Request) bool) mutation {
	return func(s *fixture, r *receivercheck.Target) {
		bounded, open := s.Handler, *r
		configured(func(c *webhook.HandlerConfig) { c.MaxBody = 1 << 40 })(s, &open)
		r.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if match(r) {
				open.Handler.ServeHTTP(w, r)
				return
			}
			bounded.ServeHTTP(w, r)
		})
	}
}

// quickly is for mistakes that show in something that does not happen.
func quickly(m mutation) mutation {
	return func(s *fixture, r *receivercheck.Target) {
		m(s, r)
		r.Timing.Timeout, r.Timing.Patience = impatient, impatient
	}
}

func answers(old, replacement string) mutation {
	return answering(func(_ *http.Request, status int, answer string) (int, string) {
		return status, strings.Replace(answer, old, replacement, 1)
	})
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
