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
)

// sorted walks through a table, so that findings always come in one order.
func sorted[V any](table map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(table)) {
			if !yield(key, table[key]) {
				return
			}
		}
	}
}

// finding notes a mistake.
func (c *checker) finding(format string, a ...any) {
	c.found = append(c.found, fmt.Sprintf(format, a...))
}

// accepts demands that what comes from the platform is taken. How it is
// acknowledged is a matter of its own: the chapters Challenge and Always.
func (c *checker) accepts(what string, e exchange) bool {
	if e.err == nil && e.status/100 == 2 {
		return true
	}
	c.finding("%s %s; it comes from the platform and has to be answered with 200 or 201", what, c.describe(e))
	return false
}

// refuses demands that what nobody can vouch for is not taken.
func (c *checker) refuses(what string, e exchange) bool {
	if e.err == nil && e.status/100 == 4 {
		return true
	}
	c.finding("%s %s; it has to be refused with 400, 401, 403 or another 4xx", what, c.describe(e))
	return false
}

// acknowledgement says what is wrong with the answer to an event that was taken;
// "" if nothing is. That the content type matters, and other members may not be
// there, is an assumption: nobody knows that the platform minds neither.
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
		return "carries the webhook secret: the challenge token is another value of the dashboard, and nobody must learn the secret"
	case err != nil:
		return fmt.Sprintf("is not a JSON object but %s", c.show(e.answer))
	case members["challenge"] == nil:
		return fmt.Sprintf("has no member challenge: %s", c.show(e.answer))
	case json.Unmarshal(members["challenge"], &token) != nil || token != c.Challenge:
		return fmt.Sprintf("has another challenge than the dashboard's: %s", c.show(e.answer))
	case len(members) > 1:
		return fmt.Sprintf("has more members than challenge: %s", c.show(e.answer))
	}
	if kind, _, _ := mime.ParseMediaType(e.header.Get("Content-Type")); kind != "application/json" {
		return fmt.Sprintf("has the content type %q and not application/json", e.header.Get("Content-Type"))
	}
	return ""
}

// handled demands that an event has been, or is soon, handled so many times.
func (c *checker) handled(n event, times int) {
	c.expectedHandled[n.ID] = times
	if c.Hooks.Handled == nil {
		return
	}
	if !c.until(func() bool { return c.Hooks.Handled(n.ID) >= times }) {
		c.finding("event %s was acknowledged, and after %s it has been handled %d times: once for each integration, %d, is expected", n.ID, c.Timing.Patience, c.Hooks.Handled(n.ID), times)
		return
	}
	c.notMore(n)
}

// notMore demands that an event has not been handled more often than it may.
func (c *checker) notMore(events ...event) {
	if c.Hooks.Handled == nil {
		return
	}
	for _, n := range events {
		if got, most := c.Hooks.Handled(n.ID), c.expectedHandled[n.ID]; got > most {
			c.finding("event %s has been handled %d times and not %d", n.ID, got, most)
			c.expectedHandled[n.ID] = got // told once
		}
	}
}

// ignored demands that an event is never handled.
func (c *checker) ignored(n event) {
	c.expectedHandled[n.ID] = 0
	c.notMore(n)
}

// catchUp waits until the receiver has handled an event that it got after all
// others: what it does twice it has done by then.
func (c *checker) catchUp() {
	if c.Hooks.Handled == nil {
		return
	}
	n := c.newEvent(c.Hooks.EventType)
	if c.accepts("an event at the end", c.deliver(n.body())) {
		c.handled(n, 1)
	}
}

// of returns what was seen so far that a test is true of.
func (c *checker) of(keep func(exchange) bool) []exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.seen), func(e exchange) bool { return !keep(e) })
}
