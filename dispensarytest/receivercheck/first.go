package receivercheck

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// firstEvent sends the first event. If it fails, the checker skips the other cases, so that a
// common mistake is reported once. If the first event times out, firstEvent sends a second
// event. If both time out, the case Always/InTime reports the mistake.
func (c *checker) firstEvent() {
	ev := c.newEvent()
	e := c.deliver(ev.body())
	if e.timedOut() {
		ev = c.newEvent()
		if e = c.secondEvent(ev); c.halted != "" {
			return
		}
	}
	if !c.takes("an event with a valid signature", ev, e) {
		c.diagnose(ev, e)
	}
}

// secondEvent sends an event and waits up to the longer of Patience and Timeout. If the response
// takes longer than Timeout, it halts the checker.
func (c *checker) secondEvent(ev event) exchange {
	patience := max(c.Timing.Patience, c.Timing.Timeout)
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	start := time.Now()
	e := c.exchange(ctx, c.signed(ev.body()))
	took := time.Since(start)
	switch {
	case e.timedOut():
		c.slowness = fmt.Sprintf("sends no response to a second event within %s either", patience)
	case took > c.Timing.Timeout:
		c.slowness = fmt.Sprintf("%s to a second event, only after %s", c.describe(e), took.Round(100*time.Millisecond))
	default:
		c.record(e)
		return e
	}
	c.expectedHandled[ev.ID] = 1
	c.halted = "see Always/InTime: the other cases need a response in time"
	return e
}

// diagnose sends further requests to find out why the endpoint rejects an event with a valid
// signature, and reports the cause.
func (c *checker) diagnose(ev event, refused exchange) {
	c.halted = "see Signature/Valid: the other cases need an accepted event"
	body := ev.body()
	confused := c.post(request{body: body, signature: c.sign(c.Challenge, body)})
	switch {
	case confused.status/100 == 2:
		c.reportf("accepts the event if it is signed with the challenge token: the endpoint verifies with the wrong value from the dashboard")
		return
	case !refused.unauthorized():
		ev.Data = encode(map[string]any{"order": ev.Data})
		if ev.Type == model.EventOrderPlaced && c.deliver(ev.body()).accepted() {
			c.reportf("accepts the event if its fields are in data.order: the fields of an order also occur directly in data, so read the object from both places")
		}
		return
	}
	for _, name := range []string{"SVC-Signature", "svc-signature"} {
		r := c.signed(body)
		r.header = name
		if c.post(r).status/100 == 2 {
			c.reportf("accepts the event if the header is sent as %s: the endpoint distinguishes the case of header names, but HTTP does not", name)
			return
		}
	}
	for what, small := range sortedByKey(map[string]string{"an empty body": "", "the body {}": "{}"}) {
		if c.verifies([]byte(small)) {
			c.reportf("distinguishes %s with a valid signature from one with a wrong signature: the secret is correct, and the body is probably read or rewritten by something in front of the endpoint, or parsed and encoded again before the verification", what)
			return
		}
	}
	c.reportf("usual causes: the endpoint verifies with a secret other than the webhook secret of this test (each environment has its own), does not verify <t>.<raw body>, or does not find the header because it distinguishes the case of header names (%s)", http.CanonicalHeaderKey("SVC-Signature"))
}

// verifies reports whether the endpoint distinguishes a valid signature of a body from a wrong
// signature.
func (c *checker) verifies(body []byte) bool {
	right := c.deliver(body)
	wrong := c.post(request{body: body, signature: c.sign(wrongSecret, body)})
	return right.err == nil && !right.unauthorized() && wrong.unauthorized()
}

// unauthorized reports whether the endpoint rejected the signature, with 401 or 403.
func (e exchange) unauthorized() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}
