package receivercheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func signatureCases() []testCase {
	return []testCase{
		{
			name: "Signature/Valid", run: (*checker).validSignature,
			consequence: "every webhook fails, and after 24 hours the platform switches the address off.",
			fix:         "compute HMAC-SHA256 with the webhook secret over <t>.<raw body>, t being the text in the header, and compare its hex digits with v1.",
		},
		{
			name: "Signature/RawBytes", run: (*checker).rawBytes,
			consequence: "events fail that another program would have written with other white space, escapes or order: today none, with the platform's next release perhaps all.",
			fix:         "verify the bytes as they arrived. Mount the endpoint in front of everything that reads or parses bodies, and decode only what is verified.",
		},
		{
			name: "Signature/Forged", run: (*checker).forged,
			consequence: "anyone who knows the address can put orders and patients into your records.",
			fix:         "verify the signature of every request before anything else, with the webhook secret, over timestamp and body, comparing all 64 digits (in Go hmac.Equal).",
		},
		{
			name: "Signature/Missing", run: (*checker).missingSignature,
			consequence: "anyone who knows the address can put orders and patients into your records: leaving the signature off is enough.",
			fix:         "refuse a request without SVC-Signature with 401.",
		},
		{
			name: "Signature/Malformed", run: (*checker).malformedSignature,
			consequence: "a scanner's requests are taken for events, or end in errors that raise an alarm.",
			fix:         "read the header as t=<digits>,v1=<64 hex digits>, and refuse everything else with 401.",
		},
	}
}

// validSignature also finds out why a signature is refused.
func (c *checker) validSignature() {
	n, e, inTime := c.deliverFirst()
	switch {
	case !inTime:
	case c.accepts("an event with a valid signature", e):
		c.handled(n, 1)
	default:
		c.diagnose(n, e)
	}
}

func (c *checker) rawBytes() {
	ev := c.newEventOf(model.PatientUpdated)
	c.accepts("a signed body with unusual white space, escapes and numbers", c.deliver(ev.unusual()))
	ev = c.newEventOf(model.PatientUpdated)
	var compact bytes.Buffer
	if err := json.Compact(&compact, ev.unusual()); err != nil {
		panic(err) // it is a constant but for ids
	}
	e := c.post(request{body: ev.unusual(), signature: signature.Header(c.Secret, c.Timing.Now(), compact.Bytes())})
	c.refuses("a body whose signature is that of the same JSON without white space", e)
}

func (c *checker) forged() {
	now := c.Timing.Now()
	for _, forgery := range []struct {
		what string
		sign func(body []byte) string
	}{
		{"an event signed with another secret", func(body []byte) string { return signature.Header(wrongSecret, now, body) }},
		{"an event signed with an empty secret", func(body []byte) string { return signature.Header("", now, body) }},
		{"an event signed with the challenge token", func(body []byte) string { return signature.Header(c.Challenge, now, body) }},
		{"an event with the signature of another body", func(body []byte) string {
			return signature.Header(c.Secret, now, bytes.Replace(body, []byte("event"), []byte("tnevE"), 1))
		}},
		{"an event whose signature was made for another second", func(body []byte) string {
			t := now.Unix()
			return "t=" + strconv.FormatInt(t, 10) + ",v1=" + signature.MAC(c.Secret, strconv.FormatInt(t-1, 10)+".", body)
		}},
		{"an event whose signature leaves the timestamp out", func(body []byte) string {
			return "t=" + strconv.FormatInt(now.Unix(), 10) + ",v1=" + signature.MAC(c.Secret, "", body)
		}},
		{"an event with the first half of its signature", func(body []byte) string {
			header := signature.Header(c.Secret, now, body)
			return header[:len(header)-32]
		}},
	} {
		ev := c.newEvent()
		c.refuses(forgery.what, c.post(request{body: ev.body(), signature: forgery.sign(ev.body())}))
		c.neverHandled(ev)
	}
}

func (c *checker) missingSignature() {
	ev := c.newEvent()
	c.refuses("an event without a signature", c.post(request{body: ev.body()}))
	c.neverHandled(ev)
}

func (c *checker) malformedSignature() {
	ev := c.newEvent()
	at := strconv.FormatInt(c.Timing.Now().Unix(), 10)
	digits := signature.MAC(c.Secret, at+".", ev.body())
	for what, header := range sortedByKey(map[string]string{
		"that is a word":                       "signature",
		"of commas":                            strings.Repeat(",", 8<<10),
		"whose values are empty":               "t=,v1=",
		"without v1":                           "t=" + at,
		"with an empty v1":                     "t=" + at + ",v1=",
		"whose v1 is not hexadecimal":          "t=" + at + ",v1=" + strings.Repeat("zz", 32),
		"without t":                            "v1=" + digits,
		"with an empty t":                      "t=,v1=" + digits,
		"that is the bare signature":           digits,
		"of another scheme (v0 in v1's place)": "t=" + at + ",v0=" + digits,
	}) {
		c.refuses("a header "+what, c.post(request{body: ev.body(), signature: header}))
	}
	c.neverHandled(ev)
}

// deliverFirst sends the first event, which decides whether others are sent: a mistake
// that every answer shows is reported once. It sends another event if the first is not
// answered in time, and reports false if that one is not either, which the case
// Always/InTime reports.
func (c *checker) deliverFirst() (ev event, e exchange, inTime bool) {
	ev = c.newEvent()
	if e = c.deliver(ev.body()); !e.timedOut() {
		return ev, e, true
	}
	patience := max(c.Timing.Patience, c.Timing.Timeout)
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	ev = c.newEvent()
	start := time.Now()
	e = c.exchange(ctx, request{body: ev.body(), signature: signature.Header(c.Secret, c.Timing.Now(), ev.body()), genuine: true})
	took := time.Since(start)
	switch {
	case !e.timedOut() && took <= c.Timing.Timeout:
		c.record(e)
		return ev, e, true
	case e.timedOut():
		c.slowness = fmt.Sprintf("another one was not answered within %s either", patience)
	default:
		c.slowness = fmt.Sprintf("another one %s, after %s", c.describe(e), took.Round(100*time.Millisecond))
	}
	c.expectedHandled[ev.ID] = 1
	c.halted = "see Always/InTime: nothing else can be judged while no event is answered in time"
	return ev, e, false
}

// diagnose says why an event with a valid signature is refused, as far as that can
// be found out from outside.
func (c *checker) diagnose(ev event, refused exchange) {
	c.halted = "see Signature/Valid: nothing else can be judged while no event is accepted"
	body := ev.body()
	confused := c.post(request{body: body, signature: signature.Header(c.Challenge, c.Timing.Now(), body)})
	switch {
	case confused.status/100 == 2:
		c.reportf("signed with the challenge token it is accepted: the endpoint verifies with the wrong value of the dashboard")
		return
	case !refused.unauthorized():
		return
	}
	for _, name := range []string{"SVC-Signature", "svc-signature"} {
		e := c.post(request{body: body, signature: signature.Header(c.Secret, c.Timing.Now(), body), header: name, genuine: true})
		if e.status/100 == 2 {
			c.reportf("sent as %s it is accepted: the endpoint minds the case of a header's name, which HTTP does not", name)
			return
		}
	}
	for what, small := range sortedByKey(map[string]string{"an empty body": "", "the body {}": "{}"}) {
		if c.verifies([]byte(small)) {
			c.reportf("%s with a valid signature is not refused like one with a wrong signature: the secret is right, and the body is probably read or rewritten by something in front of the endpoint, or parsed and written again before it is verified", what)
			return
		}
	}
	c.reportf("the usual causes: the endpoint verifies with another secret than Target.Secret (each environment has its own), over something else than <t>.<raw body>, or finds no header because it minds the case of its name (%s)", http.CanonicalHeaderKey("SVC-Signature"))
}

// verifies reports that the endpoint can tell a valid signature of a body from a
// wrong one.
func (c *checker) verifies(body []byte) bool {
	right := c.deliver(body)
	wrong := c.post(request{body: body, signature: signature.Header(wrongSecret, c.Timing.Now(), body)})
	return right.err == nil && !right.unauthorized() && wrong.unauthorized()
}

// unauthorized reports that a request was refused for its signature.
func (e exchange) unauthorized() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}
