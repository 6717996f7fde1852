package receivercheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

var signatureCases = []testCase{
	{
		name: "Signature/Valid", run: (*checker).firstEvent,
		consequence: "every webhook fails, and after 24 hours the platform switches the address off.",
		fix:         "compute HMAC-SHA256 with the webhook secret over <t>.<raw body>, t being the text in the header, and compare its hex digits with v1.",
	},
	{
		name: "Signature/RawBytes",
		run: func(c *checker) {
			c.accepts("a signed body with unusual white space, escapes and numbers", c.deliver(c.newEventOf(model.EventPatientUpdated).unusual()))
			body := c.newEventOf(model.EventPatientUpdated).unusual()
			var compact bytes.Buffer
			_ = json.Compact(&compact, body) // it is a constant but for ids
			e := c.post(request{body: body, signature: c.sign(c.Secret, compact.Bytes())})
			c.refuses("a body whose signature is that of the same JSON without white space", e)
		},
		consequence: "events fail that another program would have written with other white space, escapes or order: today none, with the platform's next release perhaps all.",
		fix:         "verify the bytes as they arrived. Mount the endpoint in front of everything that reads or parses bodies, and decode only what is verified.",
	},
	{
		name: "Signature/Forged",
		run: func(c *checker) {
			for what, forge := range sortedByKey(map[string]func(r *request){
				"signed with another secret":           func(r *request) { r.signature = c.sign(wrongSecret, r.body) },
				"signed with an empty secret":          func(r *request) { r.signature = c.sign("", r.body) },
				"signed with the challenge token":      func(r *request) { r.signature = c.sign(c.Challenge, r.body) },
				"with the signature of another body":   func(r *request) { r.signature = c.sign(c.Secret, bytes.ToUpper(r.body)) },
				"with the first half of its signature": func(r *request) { r.signature = r.signature[:len(r.signature)-32] },
				"whose signature was made for another second": func(r *request) {
					t, v1, _ := strings.Cut(r.signature, ",")
					last := len(t) - 1
					r.signature = t[:last] + string(t[last]^1) + "," + v1
				},
				"whose signature leaves the timestamp out": func(r *request) {
					t, _, _ := strings.Cut(r.signature, ",")
					r.signature = t + ",v1=" + signature.MAC(c.Secret, "", r.body)
				},
			}) {
				c.refusesEvent("an event "+what, forge)
			}
		},
		consequence: "anyone who knows the address can put orders and patients into your records.",
		fix:         "verify the signature of every request before anything else, with the webhook secret, over timestamp and body, comparing all 64 digits (in Go hmac.Equal).",
	},
	{
		name: "Signature/Missing",
		run: func(c *checker) {
			c.refusesEvent("an event without a signature", func(r *request) { r.signature = "" })
		},
		consequence: "anyone who knows the address can put orders and patients into your records: leaving the signature off is enough.",
		fix:         "refuse a request without SVC-Signature with 401.",
	},
	{
		name: "Signature/Malformed",
		run: func(c *checker) {
			for what, header := range sortedByKey(map[string]string{
				"that is a word":                       "signature",
				"of commas":                            strings.Repeat(",", 8<<10),
				"whose values are empty":               "t=,v1=",
				"without v1":                           "t=<t>",
				"with an empty v1":                     "t=<t>,v1=",
				"whose v1 is not hexadecimal":          "t=<t>,v1=" + strings.Repeat("zz", 32),
				"without t":                            "v1=<digits>",
				"with an empty t":                      "t=,v1=<digits>",
				"that is the bare signature":           "<digits>",
				"of another scheme (v0 in v1's place)": "t=<t>,v0=<digits>",
			}) {
				c.refusesEvent("a header "+what, func(r *request) {
					t, digits, _ := strings.Cut(strings.TrimPrefix(r.signature, "t="), ",v1=")
					r.signature = strings.NewReplacer("<t>", t, "<digits>", digits).Replace(header)
				})
			}
		},
		consequence: "a scanner's requests are taken for events, or end in errors that raise an alarm.",
		fix:         "read the header as t=<digits>,v1=<64 hex digits>, and refuse everything else with 401.",
	},
}

// driftMargin is how far from the edge of the tolerance a timestamp is: the
// receiver's clock is not read at the same moment.
const driftMargin = 30 * time.Second

var timestampCases = []testCase{
	{
		name: "Signature/Stale",
		run: func(c *checker) {
			for _, age := range c.intolerable() {
				c.refusesEvent(fmt.Sprintf("an event that was signed %s ago", age), c.signedAt(-age))
			}
		},
		consequence: "who has seen one request, in a proxy's log for example, can send it again at any time.",
		fix:         "refuse a timestamp that is older than five minutes.",
	},
	{
		name: "Signature/Future",
		run: func(c *checker) {
			for _, lead := range c.intolerable() {
				c.refusesEvent(fmt.Sprintf("an event with a signature from %s in the future", lead), c.signedAt(lead))
			}
		},
		consequence: "a request that was signed ahead of its time stays good until then, and for the tolerance after it.",
		fix:         "compare the distance between timestamp and clock, in both directions: abs(now - t) > 5 minutes is refused.",
	},
	{
		name: "Signature/Drift",
		run: func(c *checker) {
			within := max(c.Timing.Tolerance-driftMargin, c.Timing.Tolerance/2)
			c.takesEvent(fmt.Sprintf("an event that was signed %s ago", within), c.signedAt(-within))
			c.takesEvent(fmt.Sprintf("an event that was signed %s ahead of the clock", within), c.signedAt(within))
		},
		consequence: "events fail as soon as two clocks differ a little, or a delivery is held up on its way.",
		fix:         "accept timestamps within five minutes of the clock, in both directions.",
	},
	{
		name: "Signature/Replayed", needs: needsHandled,
		run: func(c *checker) {
			ev := c.newEvent()
			first := c.signed(ev.body())
			if c.takes("an event", ev, c.post(first)) {
				c.post(first) // how it is answered is up to the receiver
				c.drain(ev)
			}
		},
		consequence: "the same request, sent twice within five minutes, is handled twice.",
		fix:         "store the event's id and integration id under a unique key, and handle what is new.",
	},
	{
		name: "Signature/TwoSignatures",
		run: func(c *checker) {
			now := c.Timing.Now()
			signedWith := func(first, last string) func(*request) {
				return func(r *request) {
					_, v1, _ := strings.Cut(signature.Header(last, now, r.body), ",")
					r.signature = signature.Header(first, now, r.body) + "," + v1
				}
			}
			c.takesEvent("an event with a wrong and a right v1", signedWith(wrongSecret, c.Secret))
			c.takesEvent("an event with a right and a wrong v1", signedWith(c.Secret, wrongSecret))
			c.refusesEvent("an event with two wrong v1", signedWith(wrongSecret, ""))
		},
		consequence: "while the secret is rotated, the platform may sign with both: every webhook fails until the rotation is over.",
		fix:         "read all v1 of the header, and accept if any of them matches.",
	},
	{
		name: "Signature/Rotated", needs: needsOldSecret,
		run: func(c *checker) {
			c.takesEvent("an event signed with the new secret", func(r *request) { r.signature = c.sign(c.Secret, r.body) })
			c.takesEvent("an event signed with the old secret", func(r *request) { r.signature = c.sign(c.Features.OldSecret, r.body) })
		},
		consequence: "between the change in the dashboard and that of your configuration every webhook fails.",
		fix:         "verify with a list of secrets, the new and the old, until the change has taken effect everywhere.",
	},
	{
		name: "Signature/FailsClosed", needs: needsWithoutSecret, run: (*checker).failsClosed,
		consequence: "a variable that is missing in one environment opens the address to every sender, without a sign of it.",
		fix:         "refuse to start without a secret.",
	},
}

// intolerable returns distances from the clock that are beyond the tolerance.
func (c *checker) intolerable() []time.Duration {
	return []time.Duration{c.Timing.Tolerance + driftMargin, 24 * time.Hour, 365 * 24 * time.Hour}
}

// signedAt changes the time of a signature.
func (c *checker) signedAt(shift time.Duration) func(*request) {
	return func(r *request) { r.signature = signature.Header(c.Secret, c.Timing.Now().Add(shift), r.body) }
}

// unconfiguredOrigin is where the receiver without a secret is hosted.
const unconfiguredOrigin = "https://unconfigured.dispensary.test"

func (c *checker) failsClosed() {
	handler, err := c.Hooks.WithoutSecret()
	if err != nil {
		return
	}
	if err := c.srv.Host(unconfiguredOrigin, handler); err != nil {
		c.reportf("WithoutSecret returned neither a handler nor an error")
		return
	}
	other := &checker{Target: c.Target, ctx: c.ctx, current: c.current, client: c.hosted, url: unconfiguredOrigin + c.Path}
	for what, sign := range sortedByKey(map[string]func([]byte) string{
		"unsigned":                    func([]byte) string { return "" },
		"signed with an empty secret": func(body []byte) string { return c.sign("", body) },
		"signed with some secret":     func(body []byte) string { return c.sign(wrongSecret, body) },
	}) {
		ev := c.newEvent()
		e := other.post(request{body: ev.body(), signature: sign(ev.body())})
		if e.status/100 == 2 {
			c.reportf("without a secret, an event that is %s %s", what, c.describe(e))
		}
		c.neverHandled(ev)
	}
}
