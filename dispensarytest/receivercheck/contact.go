package receivercheck

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// The first event that a receiver is sent decides whether there is any use in
// sending others: what is wrong with all of them is told once.

// contact sends the first event, and another one if the first is not answered in
// time. It reports false where events are never answered in time, which is for the
// case Always/InTime to tell.
func (c *checker) contact() (n event, e exchange, inTime bool) {
	n = c.newEvent(c.Hooks.EventType)
	if e = c.deliver(n.body()); !e.timedOut() {
		return n, e, true
	}
	patience := max(c.Timing.Patience, c.Timing.Timeout)
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	n = c.newEvent(c.Hooks.EventType)
	start := time.Now()
	e = c.exchange(ctx, request{body: n.body(), signature: sign(c.Secret, c.Timing.Now(), n.body()), genuine: true})
	took := time.Since(start)
	switch {
	case !e.timedOut() && took <= c.Timing.Timeout:
		c.keep(e)
		return n, e, true
	case e.timedOut():
		c.slowness = fmt.Sprintf("another one was not answered within %s either", patience)
	default:
		c.slowness = fmt.Sprintf("another one %s, after %s", c.describe(e), took.Round(100*time.Millisecond))
	}
	c.expectedHandled[n.ID] = 1
	c.halted = "see Always/InTime: nothing else can be judged while no event is answered in time"
	return n, e, false
}

// diagnose says why an event with a valid signature is refused, as far as that can
// be found out from outside.
func (c *checker) diagnose(n event, refused exchange) {
	c.halted = "see Signature/Valid: nothing else can be judged while no event is accepted"
	body := n.body()
	confused := c.post(request{body: body, signature: sign(c.Challenge, c.Timing.Now(), body)})
	switch {
	case confused.status/100 == 2:
		c.finding("signed with the challenge token it is accepted: the endpoint verifies with the wrong value of the dashboard")
		return
	case !refused.unauthorized():
		return
	}
	for _, name := range []string{"SVC-Signature", "svc-signature"} {
		e := c.post(request{body: body, signature: sign(c.Secret, c.Timing.Now(), body), header: name, genuine: true})
		if e.status/100 == 2 {
			c.finding("sent as %s it is accepted: the endpoint minds the case of a header's name, which HTTP does not", name)
			return
		}
	}
	for what, small := range sorted(map[string]string{"an empty body": "", "the body {}": "{}"}) {
		if c.tells([]byte(small)) {
			c.finding("%s with a valid signature is not refused like one with a wrong signature: the secret is right, and the body is probably read or rewritten by something in front of the endpoint, or parsed and written again before it is verified", what)
			return
		}
	}
	c.finding("the usual causes: the endpoint verifies with another secret than Target.Secret (each environment has its own), over something else than <t>.<raw body>, or finds no header because it minds the case of its name (%s)", http.CanonicalHeaderKey("SVC-Signature"))
}

// tells reports that the endpoint can tell a valid signature of a body from a
// wrong one.
func (c *checker) tells(body []byte) bool {
	right := c.deliver(body)
	wrong := c.post(request{body: body, signature: sign(wrongSecret, c.Timing.Now(), body)})
	return right.err == nil && !right.unauthorized() && wrong.unauthorized()
}

// unauthorized reports that a request was refused for its signature.
func (e exchange) unauthorized() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}
