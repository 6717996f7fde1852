package receivercheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
)

// sortedByKey iterates over a table in the order of its keys, so that findings always
// come in the same order.
func sortedByKey[V any](table map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(table)) {
			if !yield(key, table[key]) {
				return
			}
		}
	}
}

// sign returns the signature header of a body that is sent now.
func (c *checker) sign(secret string, body []byte) string {
	return signature.Header(secret, c.Timing.Now(), body)
}

// signed is a request as the platform makes it.
func (c *checker) signed(body []byte) request {
	return request{body: body, signature: c.sign(c.Secret, body), genuine: true}
}

// deliver sends a body as the platform does.
func (c *checker) deliver(body []byte) exchange { return c.post(c.signed(body)) }

// wrongSecret signs what is to be refused.
const wrongSecret = "not the webhook secret"

// accepted reports that a request was answered with 2xx.
func (e exchange) accepted() bool { return e.err == nil && e.status/100 == 2 }

// reportf records a mistake.
func (c *checker) reportf(format string, a ...any) {
	c.found = append(c.found, fmt.Sprintf(format, a...))
}

// accepts demands that a request of the platform is answered with 2xx. The body of the
// answer is checked in the sections Challenge and Always.
func (c *checker) accepts(what string, e exchange) bool {
	if e.accepted() {
		return true
	}
	c.reportf("%s %s; it comes from the platform and has to be answered with 200 or 201", what, c.describe(e))
	return false
}

// refuses demands that a request that is not verifiably of the platform is answered
// with 4xx.
func (c *checker) refuses(what string, e exchange) bool {
	if e.err == nil && e.status/100 == 4 {
		return true
	}
	c.reportf("%s %s; it has to be refused with 400, 401, 403 or another 4xx", what, c.describe(e))
	return false
}

// acknowledgement says what is wrong with the answer to an event that was accepted;
// "" if nothing is. That the content type matters, and that other members are not
// allowed, are assumptions.
// API section: "Webhooks" 3.
func (c *checker) acknowledgement(e exchange) string {
	if e.status != http.StatusOK && e.status != http.StatusCreated {
		return fmt.Sprintf("has the status %d: only 200 and 201 count", e.status)
	}
	var members map[string]json.RawMessage
	var token string
	err := json.Unmarshal([]byte(e.answer), &members)
	switch {
	case e.answer == "":
		return "has no body"
	case bytes.Contains([]byte(e.answer), []byte(c.Secret)):
		return "carries the webhook secret: the challenge token is another value of the dashboard, and the secret must stay secret"
	case err != nil:
		return fmt.Sprintf("is not a JSON object but %s", c.quote(e.answer))
	case members["challenge"] == nil:
		return fmt.Sprintf("has no member challenge: %s", c.quote(e.answer))
	case json.Unmarshal(members["challenge"], &token) != nil || token != c.Challenge:
		return fmt.Sprintf("has another challenge than the dashboard's: %s", c.quote(e.answer))
	case len(members) > 1:
		return fmt.Sprintf("has more members than challenge: %s", c.quote(e.answer))
	}
	if kind, _, _ := mime.ParseMediaType(e.header.Get("Content-Type")); kind != "application/json" {
		return fmt.Sprintf("has the content type %q and not application/json", e.header.Get("Content-Type"))
	}
	return ""
}

// acknowledges demands that a request of the platform is accepted with the challenge.
func (c *checker) acknowledges(what string, e exchange) bool {
	if !c.accepts(what, e) {
		return false
	}
	if wrong := c.acknowledgement(e); wrong != "" {
		c.reportf("the answer to %s %s", what, wrong)
		return false
	}
	return true
}

// takes demands that an event is accepted, and handled once.
func (c *checker) takes(what string, ev event, e exchange) bool {
	if !c.accepts(what, e) {
		return false
	}
	c.handled(ev, 1)
	return true
}

// takesEvent demands that a new event is accepted, and handled once, after a change to the
// request of the platform.
func (c *checker) takesEvent(what string, change func(*request)) {
	ev := c.newEvent()
	r := c.signed(ev.body())
	change(&r)
	c.takes(what, ev, c.post(r))
}

// refusesEvent demands that a new event is refused, and never handled, after a change to
// the request of the platform.
func (c *checker) refusesEvent(what string, change func(*request)) {
	ev := c.newEvent()
	r := c.signed(ev.body())
	r.genuine = false
	change(&r)
	c.refuses(what, c.post(r))
	c.neverHandled(ev)
}

// handled demands that an event is handled so many times within Patience, and no more.
func (c *checker) handled(ev event, times int) {
	c.expectedHandled[ev.ID] = times
	if c.Hooks.Handled == nil {
		return
	}
	if !c.waitUntil(func() bool { return c.Hooks.Handled(ev.ID) >= times }) {
		c.reportf("event %s was acknowledged, and after %s it has been handled %d times: once for each integration, %d, is expected", ev.ID, c.Timing.Patience, c.Hooks.Handled(ev.ID), times)
		return
	}
	c.notHandledAgain(ev.ID)
}

// neverHandled demands that an event is never handled.
func (c *checker) neverHandled(ev event) {
	c.expectedHandled[ev.ID] = 0
	c.notHandledAgain(ev.ID)
}

// notHandledAgain demands that an event has not been handled more often than it may.
func (c *checker) notHandledAgain(id string) {
	if c.Hooks.Handled == nil {
		return
	}
	if got, most := c.Hooks.Handled(id), c.expectedHandled[id]; got > most {
		c.reportf("event %s has been handled %d times and not %d", id, got, most)
		c.expectedHandled[id] = got // reported once
	}
}

// drain waits until the receiver has handled an event that it got after all others: an
// event that is handled twice has been by then. It demands that the given events were not.
func (c *checker) drain(events ...event) {
	if c.Hooks.Handled == nil {
		return
	}
	c.takesEvent("an event at the end", func(*request) {})
	for _, ev := range events {
		c.notHandledAgain(ev.ID)
	}
}
