package receivercheck

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// sortedByKey iterates over a table in the order of its keys. Findings therefore always have the
// same order.
func sortedByKey[V any](table map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(table)) {
			if !yield(key, table[key]) {
				return
			}
		}
	}
}

// reportf adds a finding to the running case.
func (c *checker) reportf(format string, a ...any) {
	c.found = append(c.found, fmt.Sprintf(format, a...))
}

// accepts requires a 2xx response to a request of the platform. The sections Challenge and Always
// check the body of the response.
func (c *checker) accepts(what string, e exchange) bool {
	if e.accepted() {
		return true
	}
	c.reportf("does not accept %s but %s (required: 200 or 201)", what, c.describe(e))
	return false
}

// rejects requires a 4xx response to a request that is not verifiably from the platform.
func (c *checker) rejects(what string, e exchange) bool {
	if e.err == nil && e.status/100 == 4 {
		return true
	}
	c.reportf("does not reject %s but %s (required: 400, 401, 403 or another 4xx)", what, c.describe(e))
	return false
}

// acknowledges requires the challenge in the response to a request of the platform.
func (c *checker) acknowledges(what string, e exchange) bool {
	if !c.accepts(what, e) {
		return false
	}
	if wrong := c.acknowledgement(e); wrong != "" {
		c.reportf("does not acknowledge %s: the response %s", what, wrong)
		return false
	}
	return true
}

// takes requires that the endpoint accepts an event and handles it once.
func (c *checker) takes(what string, ev event, e exchange) bool {
	if !c.accepts(what, e) {
		return false
	}
	c.handled(ev, 1)
	return true
}

// takesEvent requires that the endpoint accepts a new event and handles it once. change modifies
// the request of the platform.
func (c *checker) takesEvent(what string, change func(*request)) {
	ev := c.newEvent()
	r := c.signed(ev.body())
	change(&r)
	c.takes(what, ev, c.post(r))
}

// rejectsEvent requires that the endpoint rejects a new event and never handles it. change
// modifies the request of the platform.
func (c *checker) rejectsEvent(what string, change func(*request)) {
	ev := c.newEvent()
	r := c.signed(ev.body())
	r.genuine = false
	change(&r)
	c.rejects(what, c.post(r))
	c.neverHandled(ev)
}

// handled requires that an event is handled exactly times times within Timing.Patience.
func (c *checker) handled(ev event, times int) {
	c.expectedHandled[ev.ID] = times
	if c.Hooks.Handled == nil {
		return
	}
	if !c.waitUntil(func() bool { return c.Hooks.Handled(ev.ID) >= times }) {
		c.reportf("acknowledged event %s, but within %s handled it %d times; expected %d, once for each integration", ev.ID, c.Timing.Patience, c.Hooks.Handled(ev.ID), times)
		return
	}
	c.notHandledAgain(ev.ID)
}

// neverHandled requires that an event is never handled.
func (c *checker) neverHandled(ev event) {
	c.expectedHandled[ev.ID] = 0
	c.notHandledAgain(ev.ID)
}

// notHandledAgain requires that an event was not handled more often than expected.
func (c *checker) notHandledAgain(id string) {
	if c.Hooks.Handled == nil {
		return
	}
	if got, most := c.Hooks.Handled(id), c.expectedHandled[id]; got > most {
		c.reportf("handled event %s %d times instead of %d", id, got, most)
		c.expectedHandled[id] = got // report it once
	}
}

// drain sends a last event and waits until it is handled. By then, any repeated handling of
// earlier events has happened. drain requires that the given events were not handled again.
func (c *checker) drain(events ...event) {
	if c.Hooks.Handled == nil {
		return
	}
	c.takesEvent("the last event", func(*request) {})
	for _, ev := range events {
		c.notHandledAgain(ev.ID)
	}
}

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
func (c *checker) diagnose(ev event, rejected exchange) {
	c.halted = "see Signature/Valid: the other cases need an accepted event"
	body := ev.body()
	confused := c.post(request{body: body, signature: c.sign(c.Challenge, body)})
	switch {
	case confused.status/100 == 2:
		c.reportf("accepts the event if it is signed with the challenge token: the endpoint verifies with the wrong value from the dashboard")
		return
	case !rejected.unauthorized():
		ev.Data = view.Encode(map[string]any{"order": ev.Data})
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
