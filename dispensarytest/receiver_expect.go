package dispensarytest

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
func (x *examination) finding(format string, a ...any) {
	x.found = append(x.found, fmt.Sprintf(format, a...))
}

// accepts demands that what comes from the platform is taken. How it is
// acknowledged is a matter of its own: the chapters Challenge and Always.
func (x *examination) accepts(what string, e exchange) bool {
	if e.err == nil && e.status/100 == 2 {
		return true
	}
	x.finding("%s %s; it comes from the platform and has to be answered with 200 or 201", what, x.describe(e))
	return false
}

// refuses demands that what nobody can vouch for is not taken.
func (x *examination) refuses(what string, e exchange) bool {
	if e.err == nil && e.status/100 == 4 {
		return true
	}
	x.finding("%s %s; it has to be refused with 400, 401, 403 or another 4xx", what, x.describe(e))
	return false
}

// acknowledgement says what is wrong with the answer to an event that was taken;
// "" if nothing is. That the content type matters, and other members may not be
// there, is an assumption: nobody knows that the platform minds neither.
// API section: "Webhooks" 3.
func (x *examination) acknowledgement(e exchange) string {
	if e.status != http.StatusOK && e.status != http.StatusCreated {
		return fmt.Sprintf("has the status %d: only 200 and 201 count", e.status)
	}
	var members map[string]json.RawMessage
	var token string
	err := json.Unmarshal([]byte(e.answer), &members)
	switch {
	case e.answer == "":
		return "has no body"
	case bytes.Contains([]byte(e.answer), []byte(x.Secret)):
		return "carries the webhook secret: the challenge token is another value of the dashboard, and nobody must learn the secret"
	case err != nil:
		return fmt.Sprintf("is not a JSON object but %s", x.show(e.answer))
	case members["challenge"] == nil:
		return fmt.Sprintf("has no member challenge: %s", x.show(e.answer))
	case json.Unmarshal(members["challenge"], &token) != nil || token != x.Challenge:
		return fmt.Sprintf("has another challenge than the dashboard's: %s", x.show(e.answer))
	case len(members) > 1:
		return fmt.Sprintf("has more members than challenge: %s", x.show(e.answer))
	}
	if kind, _, _ := mime.ParseMediaType(e.header.Get("Content-Type")); kind != "application/json" {
		return fmt.Sprintf("has the content type %q and not application/json", e.header.Get("Content-Type"))
	}
	return ""
}

// handled demands that an event has been, or is soon, handled so many times.
func (x *examination) handled(n notice, times int) {
	x.ledger[n.ID] = times
	if x.Handled == nil {
		return
	}
	if !x.until(func() bool { return x.Handled(n.ID) >= times }) {
		x.finding("event %s was acknowledged, and after %s it has been handled %d times: once for each integration, %d, is expected", n.ID, x.Patience, x.Handled(n.ID), times)
		return
	}
	x.notMore(n)
}

// notMore demands that an event has not been handled more often than it may.
func (x *examination) notMore(notices ...notice) {
	if x.Handled == nil {
		return
	}
	for _, n := range notices {
		if got, most := x.Handled(n.ID), x.ledger[n.ID]; got > most {
			x.finding("event %s has been handled %d times and not %d", n.ID, got, most)
			x.ledger[n.ID] = got // told once
		}
	}
}

// ignored demands that an event is never handled.
func (x *examination) ignored(n notice) {
	x.ledger[n.ID] = 0
	x.notMore(n)
}

// catchUp waits until the receiver has handled an event that it got after all
// others: what it does twice it has done by then.
func (x *examination) catchUp() {
	if x.Handled == nil {
		return
	}
	n := x.notice(x.EventType)
	if x.accepts("an event at the end", x.deliver(n.body())) {
		x.handled(n, 1)
	}
}

// of returns what was seen so far that a test is true of.
func (x *examination) of(keep func(exchange) bool) []exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(x.seen), func(e exchange) bool { return !keep(e) })
}
