package mistakes

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/webhook"
)

// Mistake is a mistake of a receiver.
type Mistake struct {
	// Case is the case that finds the mistake, and Says words of its verdict.
	Case, Says string

	// Breaks puts the mistake into an endpoint.
	Breaks Mutation
}

// All are mistakes of real receivers, by a name. There is at least one for each case.
var All = map[string]Mistake{
	// Signatures.
	"challenge token for secret": {"Signature/Valid", "wrong value of the dashboard", configured(func(c *webhook.HandlerConfig) { c.Secrets, c.Challenge = []api.Secret{c.Challenge}, c.Secrets[0] })},
	"body read by a middleware":  {"Signature/Valid", "read or rewritten by something in front", Changing(func(r *http.Request) { r.Body = http.NoBody })},
	"body encoded again":         {"Signature/RawBytes", "unusual white space", Changing(func(r *http.Request) { Replace(r, compact(BodyOf(r))) })},
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
	"header is indexed":     {"Signature/Malformed", "got no answer", Changing(indexHeader)},
	"no tolerance":          {"Signature/Stale", "24h0m0s ago", trusting(verified)},
	"tolerance of one side": {"Signature/Future", "in the future", trusting(func(h string, b []byte) bool { return verified(h, b) && age(h) < 5*time.Minute })},
	"tolerance of a minute": {"Signature/Drift", "was answered with 401", configured(func(c *webhook.HandlerConfig) { c.Tolerance = time.Minute })},
	"replays are handled":   {"Signature/Replayed", "handled 2 times", storing(keyed(newKey))},
	"first v1 only": {"Signature/TwoSignatures", "wrong and a right", Changing(func(r *http.Request) {
		elements := strings.Split(r.Header.Get("SVC-Signature"), ",")
		r.Header.Set("SVC-Signature", strings.Join(elements[:min(2, len(elements))], ","))
	})},
	"old secret refused": {"Signature/Rotated", "the old secret", configured(func(c *webhook.HandlerConfig) { c.Secrets = c.Secrets[:1] })},
	"open without a secret": {"Signature/FailsClosed", "unsigned was answered with 200", func(s *Endpoint, r *receivercheck.Target) {
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
	"secret for challenge":      {"Challenge/Answer", "carries the webhook secret", replacing(Challenge, Secret)},
	"challenge of elsewhere":    {"Challenge/Answer", "another challenge", replacing(Challenge, "challenge-of-production")},
	"bare challenge":            {"Challenge/Answer", "not a JSON object", replacing(Acknowledgement, Challenge)},
	"challenge and more":        {"Challenge/Answer", "more members", replacing(`{`, `{"ok":true,`)},
	"challenge under a wrapper": {"Challenge/Answer", "no member challenge", replacing(`"challenge"`, `"data"`)},
	"challenge as text":         {"Challenge/Answer", "text/plain", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Header().Set("Content-Type", "text/plain") })},
	"probe is no event":         {"Challenge/Probe", "400", refusing(400, func(_ map[string]any, b []byte) bool { return len(b) == 0 })},
	"probes for everybody":      {"Challenge/UnsignedProbe", "without a signature was answered with 200", configured(func(c *webhook.HandlerConfig) { c.AnswerUnsignedProbe = true })},
	"probes for nobody":         {"Challenge/UnsignedProbe", "was answered with 401", func(_ *Endpoint, r *receivercheck.Target) { r.Features.UnsignedProbe = true }},
	"any method":                {"Challenge/OnlyPost", "by GET", Changing(func(r *http.Request) { r.Method = http.MethodPost })},

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
	"orders are wrapped":      {"Signature/Valid", "with its fields in data.order it is accepted", refusing(400, wants("order"))},
	"orders are not wrapped":  {"Events/Wrapping", "data.order", refusing(400, wants("order_number"))},
	"event is on top":         {"Events/Payload", "event_payload", refusing(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"event_payload"`)) })},
	"event needs its wrapper": {"Events/Bare", "without a wrapper", refusing(400, func(_ map[string]any, b []byte) bool { return bytes.HasPrefix(b, []byte(`{"id"`)) })},

	// Delivery.
	"duplicates are conflicts":        {"Delivery/Repeated", "409", refusing(409, known())},
	"duplicates without challenge":    {"Always/Acknowledged", "has no body; seen in", refusing(200, known())},
	"no de-duplication":               {"Delivery/Repeated", "handled 3 times", storing(keyed(newKey))},
	"look, then insert":               {"Delivery/Concurrent", "times and not 1", storing(checkThenAct)},
	"copies at once are refused":      {"Delivery/Concurrent", "403", oneAtATime()},
	"one integration":                 {"Delivery/Integrations", "handled 1 times", Quickly(storing(keyed(func(k *webhook.Key) { k.IntegrationID = "" })))},
	"only what is newer":              {"Delivery/Reordered", "an hour older", refusing(409, newest())},
	"acknowledged before it is there": {"Delivery/StorageDown", "could not be stored was answered with 200", storing(regardless)},
	"work inside of the request":      {"Delivery/SlowHandler", "takes its time", Quickly(storing(inside))},
	"a queue that is full drops":      {"Delivery/SlowHandler", "handled 0 times", Quickly(storing(dropping))},

	// Bodies.
	"anything is acknowledged": {"Bodies/Malformed", "is lost", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 400, 200) })},
	"a column is too short":    {"Bodies/Large", "500", refusing(500, func(_ map[string]any, b []byte) bool { return len(b) > 64<<10 })},
	"no limit":                 {"Bodies/Limit", "read to its end", configured(func(c *webhook.HandlerConfig) { c.MaxBody = 1 << 40 })},
	"limit of chunks alone":    {"Bodies/Limit", "32 megabytes with a Content-Length", unlimited(func(r *http.Request) bool { return r.ContentLength >= 0 })},
	"limit of lengths alone":   {"Bodies/Limit", "32 megabytes in chunks", unlimited(func(r *http.Request) bool { return r.ContentLength < 0 })},
	"one read": {"Bodies/Pieces", "in pieces", Changing(func(r *http.Request) {
		buffer := make([]byte, 64<<10)
		n, _ := r.Body.Read(buffer) // the mistake
		Replace(r, buffer[:n])
	})},
	"body += chunk": {"Bodies/Characters", "two packets was answered with 401", Changing(DecodeEach)},
	"a lock around the body": {"Bodies/BrokenOff", "was not answered within", Quickly(Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		s.reading.Lock()
		defer s.reading.Unlock()
		s.ServeHTTP(w, r)
	}))},
	"connections never end": {"Bodies/SlowLoris", "keeps its connection", Quickly(withoutReadTimeout)},
	"reads on and on": {"Bodies/BrokenOff", "has not ended", Quickly(Around(func(s *Endpoint, _ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			<-s.test.Context().Done()
		}
	}))},

	// In every case.
	"410": {"Always/NeverGone", "410; seen in Signature/RawBytes, Signature/Forged", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = instead(a.Code, 401, 410) })},
	"work before the answer": {"Always/InTime", "not answered within 2s", Quickly(Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.ServeHTTP(w, r)
	}))},
	"panics":                  {"Always/NoCrash", "index out of range", Changing(indexHeader)},
	"challenge for everybody": {"Always/TellsNothing", "does not verify the challenge token", answering(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Body = bytes.NewBufferString(Acknowledgement) })},
	"errors that quote": {"Always/TellsNothing", "the first name of the patient", Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		body := BodyOf(r)
		if !fresh(r.Header.Get("SVC-Signature"), body) {
			http.Error(w, "cannot verify "+string(body), http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	})},
	"secrets for everybody":       {"Always/TellsNothing", "the webhook secret", replacing("Unauthorized", "expected "+Secret)},
	"handled again after a while": {"Always/HandledOnce", "handled 2 times", storing(lateAgain)},
	"the log has it all":          {"Always/QuietLogs", "the e-mail address of the patient", logging(func(r *http.Request) string { return string(BodyOf(r)) })},
	"the log has the secret":      {"Always/QuietLogs", "the webhook secret", logging(func(*http.Request) string { return Secret })},
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
