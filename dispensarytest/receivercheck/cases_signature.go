package receivercheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

var signatureCases = []testCase{
	{
		name: "Signature/Valid", run: (*checker).firstEvent,
		consequence: "every webhook fails, and the platform disables the endpoint after 24 hours",
		fix:         "compute HMAC-SHA256 with the webhook secret over <t>.<raw body>, with t exactly as in the header, and compare its hex digits with v1",
	},
	{
		name: "Signature/RawBytes",
		run: func(c *checker) {
			c.accepts("a signed body with unusual whitespace, escapes and numbers", c.deliver(c.newEventOf(model.EventPatientUpdated).unusual()))
			body := c.newEventOf(model.EventPatientUpdated).unusual()
			var compact bytes.Buffer
			_ = json.Compact(&compact, body) // the body is valid JSON
			e := c.post(request{body: body, signature: c.sign(c.Secret, compact.Bytes())})
			c.rejects("a body with the signature of the same JSON without whitespace", e)
		},
		consequence: "events fail if their whitespace, escapes or order differ from the encoder of your program: none today, perhaps all after the platform's next release",
		fix:         "verify the raw bytes; mount the endpoint before any code that reads or parses bodies, and decode only verified bodies",
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
				"with a signature for another second": func(r *request) {
					t, v1, _ := strings.Cut(r.signature, ",")
					last := len(t) - 1
					r.signature = t[:last] + string(t[last]^1) + "," + v1
				},
				"with a signature that omits the timestamp": func(r *request) {
					t, _, _ := strings.Cut(r.signature, ",")
					r.signature = t + ",v1=" + signature.MAC(c.Secret, "", r.body)
				},
			}) {
				c.rejectsEvent("an event "+what, forge)
			}
		},
		consequence: "anyone who knows the URL can add orders and patients to your records",
		fix:         "verify the signature of every request before anything else, with the webhook secret, over timestamp and body, and compare all 64 digits (in Go with hmac.Equal)",
	},
	{
		name: "Signature/Missing",
		run: func(c *checker) {
			c.rejectsEvent("an event without a signature", func(r *request) { r.signature = "" })
		},
		consequence: "anyone who knows the URL can add orders and patients to your records by omitting the signature",
		fix:         "reject a request without SVC-Signature with 401",
	},
	{
		name: "Signature/Malformed",
		run: func(c *checker) {
			for what, header := range sortedByKey(map[string]string{
				"of one word":                            "signature",
				"of commas":                              strings.Repeat(",", 8<<10),
				"with empty values":                      "t=,v1=",
				"without v1":                             "t=<t>",
				"with an empty v1":                       "t=<t>,v1=",
				"with a v1 that is not hexadecimal":      "t=<t>,v1=" + strings.Repeat("zz", 32),
				"without t":                              "v1=<digits>",
				"with an empty t":                        "t=,v1=<digits>",
				"of only the digits":                     "<digits>",
				"with another scheme (v0 instead of v1)": "t=<t>,v0=<digits>",
			}) {
				c.rejectsEvent("a signature header "+what, func(r *request) {
					t, digits, _ := strings.Cut(strings.TrimPrefix(r.signature, "t="), ",v1=")
					r.signature = strings.NewReplacer("<t>", t, "<digits>", digits).Replace(header)
				})
			}
		},
		consequence: "a scanner's requests are accepted as events, or cause errors that raise an alarm",
		fix:         "parse the header as t=<digits>,v1=<64 hex digits>, and reject any other header with 401",
	},
}

// driftMargin is the distance of a timestamp from the limit of the tolerance. It is necessary
// because the receiver reads its clock at another moment.
const driftMargin = 30 * time.Second

var timestampCases = []testCase{
	{
		name: "Signature/Stale",
		run: func(c *checker) {
			for _, age := range c.intolerable() {
				c.rejectsEvent(fmt.Sprintf("an event signed %s ago", age), c.signedAt(-age))
			}
		},
		consequence: "anyone who has seen one request, such as in a proxy's log, can send it again at any time",
		fix:         "reject a timestamp older than five minutes",
	},
	{
		name: "Signature/Future",
		run: func(c *checker) {
			for _, lead := range c.intolerable() {
				c.rejectsEvent(fmt.Sprintf("an event signed %s in the future", lead), c.signedAt(lead))
			}
		},
		consequence: "a request signed in advance stays valid until its timestamp, and for the tolerance after it",
		fix:         "check the distance between timestamp and clock in both directions: reject abs(now - t) > 5 minutes",
	},
	{
		name: "Signature/Drift",
		run: func(c *checker) {
			within := max(c.Timing.Tolerance-driftMargin, c.Timing.Tolerance/2)
			c.takesEvent(fmt.Sprintf("an event signed %s ago", within), c.signedAt(-within))
			c.takesEvent(fmt.Sprintf("an event signed %s ahead of the clock", within), c.signedAt(within))
		},
		consequence: "events fail if two clocks differ slightly or a delivery is delayed",
		fix:         "accept timestamps within five minutes of the clock, in both directions",
	},
	{
		name: "Signature/Replayed", needs: needsHandled,
		run: func(c *checker) {
			ev := c.newEvent()
			first := c.signed(ev.body())
			if c.takes("an event", ev, c.post(first)) {
				c.post(first) // the receiver may accept or reject it
				c.drain(ev)
			}
		},
		consequence: "a request sent twice within five minutes is handled twice",
		fix:         "store the event ID and integration ID under a unique key, and handle only new events",
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
			c.takesEvent("an event with a wrong and a correct v1", signedWith(wrongSecret, c.Secret))
			c.takesEvent("an event with a correct and a wrong v1", signedWith(c.Secret, wrongSecret))
			c.rejectsEvent("an event with two wrong v1", signedWith(wrongSecret, ""))
		},
		consequence: "during a rotation the platform may sign with both secrets, so every webhook fails until the rotation ends",
		fix:         "read every v1 of the header, and accept the request if any of them matches",
	},
	{
		name: "Signature/Rotated", needs: needsOldSecret,
		run: func(c *checker) {
			c.takesEvent("an event signed with the new secret", func(r *request) { r.signature = c.sign(c.Secret, r.body) })
			c.takesEvent("an event signed with the old secret", func(r *request) { r.signature = c.sign(c.Features.OldSecret, r.body) })
		},
		consequence: "every webhook fails between the change in the dashboard and the change of your configuration",
		fix:         "verify with a list of both secrets, new and old, until the change has taken effect everywhere",
	},
	{
		name: "Signature/FailsClosed", needs: needsWithoutSecret, run: (*checker).failsClosed,
		consequence: "a variable missing in one environment silently opens the endpoint to every sender",
		fix:         "exit at startup without a secret",
	},
}

// intolerable returns distances from the clock beyond the tolerance.
func (p *endpoint) intolerable() []time.Duration {
	return []time.Duration{p.Timing.Tolerance + driftMargin, 24 * time.Hour, 365 * 24 * time.Hour}
}

// unconfiguredOrigin is the origin of the receiver without a secret.
const unconfiguredOrigin = "https://unconfigured.dispensary.test"

func (c *checker) failsClosed() {
	handler, err := c.Hooks.WithoutSecret()
	if err != nil {
		return
	}
	if err := c.srv.Host(unconfiguredOrigin, handler); err != nil {
		c.reportf("Target.Hooks.WithoutSecret returned neither a handler nor an error")
		return
	}
	other := &endpoint{Target: c.Target, ctx: c.ctx, current: c.current, client: c.hosted, url: unconfiguredOrigin + c.Path}
	for what, sign := range sortedByKey(map[string]func([]byte) string{
		"without a signature":             func([]byte) string { return "" },
		"signed with an empty secret":     func(body []byte) string { return c.sign("", body) },
		"signed with an arbitrary secret": func(body []byte) string { return c.sign(wrongSecret, body) },
	}) {
		ev := c.newEvent()
		e := other.post(request{body: ev.body(), signature: sign(ev.body())})
		if e.status/100 == 2 {
			c.reportf("accepts an event %s although no secret is configured: %s", what, c.describe(e))
		}
		c.neverHandled(ev)
	}
}

var alwaysCases = []testCase{
	{
		name: "Always/NeverGone", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) { return "responds with 410", e.status == http.StatusGone })
		},
		consequence: "the first 410 disables the endpoint immediately and for all events, until you enable it again in the dashboard",
		fix:         "never respond with 410, not even for an unknown tenant; 404 and 401 do less harm",
	},
	{
		name: "Always/InTime", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) { return "the endpoint " + c.describe(e), e.timedOut() })
			if c.slowness != "" {
				c.reportf("%s", c.slowness)
			}
		},
		consequence: "the platform stops waiting, counts the event as failed and sends it again",
		fix:         "respond as soon as the event is stored, and reject a request before doing any work",
	},
	{
		name: "Always/NoCrash", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) {
				// On a socket the rejection of a large body may be lost.
				lost := c.watch == nil && e.during == "Bodies/Large"
				return "the endpoint " + c.describe(e), e.dropped() && !lost
			})
			if c.watch != nil {
				c.found = append(c.found, c.watch.reportPanics()...)
			}
		},
		consequence: "the connection of the caller drops, and outside the protection of net/http the whole process ends",
		fix:         "check every index, pointer and conversion; a request can contain anything",
	},
	{
		name: "Always/Acknowledged", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) {
				wrong := c.acknowledgement(e)
				return "does not acknowledge an accepted event: the response " + wrong, e.genuine && e.accepted() && wrong != ""
			})
		},
		consequence: "the platform counts accepted events as failed, sends them five more times, and disables the endpoint after 24 hours",
		fix:         "acknowledge every accepted event in one place, with 200 and the challenge, including duplicates and unknown types",
	},
	{
		name: "Always/TellsNothing", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) {
				whom := "a sender without a valid signature"
				if e.genuine {
					whom = "the platform"
				}
				leaked := c.leaks(e)
				return fmt.Sprintf("reveals to %s %s", whom, strings.Join(leaked, ", ")), len(leaked) > 0
			})
		},
		consequence: "anyone with the challenge token can respond in your name, anyone with the secret can forge events, and the platform's delivery log stores patient data from your responses",
		fix:         "respond with a bare 401 to requests without a valid signature, and with the challenge or a bare status to all others; repeat no part of a body",
	},
	{
		// Now that all events are handled, this case counts the handlings of each one again.
		name: "Always/HandledOnce", needs: needsHandled,
		run: func(c *checker) {
			c.drain()
			for id := range sortedByKey(c.expectedHandled) {
				c.notHandledAgain(id)
			}
		},
		consequence: "an order is shipped twice, though not immediately",
		fix:         "record that an event is handled in the transaction of its effects, and check that record before every attempt",
	},
	{
		name: "Always/QuietLogs", needs: needsLogs, reviews: true,
		run: func(c *checker) {
			logs := c.Hooks.Logs()
			if logs == "" {
				c.skipped = "the log is empty"
				return
			}
			c.found = append(c.samples.patient.Find(1, logs), leak.New([]leak.Secret{
				{What: "the webhook secret", Value: c.Secret}, {What: "the old webhook secret", Value: c.Features.OldSecret}, {What: "the challenge token", Value: c.Challenge},
			}).Find(1, logs)...)
		},
		consequence: "patient data, or the keys to your records, can be read by everyone with access to the logs and in every system that receives them",
		fix:         "log IDs, types and reasons, but no body, no decoded event, and no error text that quotes one",
	},
}

// review reports each distinct mistake found by find in the exchanges so far, with the cases of
// its exchanges.
func (c *checker) review(find func(exchange) (mistake string, made bool)) {
	if len(c.exchanges) == 0 {
		c.reportf("no other case has run, and this case reviews their requests")
	}
	seenIn := make(map[string][]string) // cases by mistake
	var order []string
	for _, e := range c.exchanges {
		mistake, made := find(e)
		if !made {
			continue
		}
		if seenIn[mistake] == nil {
			order = append(order, mistake)
		}
		if !slices.Contains(seenIn[mistake], e.during) {
			seenIn[mistake] = append(seenIn[mistake], e.during)
		}
	}
	for _, mistake := range order {
		c.reportf("%s; seen in %s", mistake, strings.Join(seenIn[mistake], ", "))
	}
}

// leaks lists the secrets and patient data in a response that its caller must not see.
func (c *checker) leaks(e exchange) (what []string) {
	response := e.response
	for name, values := range e.header {
		response += "\n" + name + ": " + strings.Join(values, ", ")
	}
	if !e.genuine && strings.Contains(response, c.Challenge) {
		what = append(what, "the challenge token")
	}
	for _, secret := range []string{c.Secret, c.Features.OldSecret} {
		if secret != "" && strings.Contains(response, secret) {
			what = append(what, "the webhook secret")
		}
	}
	return slices.Compact(append(what, c.samples.patient.Find(1, response)...))
}
