package receivercheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
)

func alwaysCases() []testCase {
	return []testCase{
		{
			name: "Always/NeverGone", reviews: true, run: (*checker).neverGone,
			consequence: "the first 410 switches the address off, at once and for every event, until it is switched on again in the dashboard.",
			fix:         "answer with 410 never, not for an unknown tenant either; 404 and 401 do less harm.",
		},
		{
			name: "Always/InTime", reviews: true, run: (*checker).inTime,
			consequence: "the platform stops waiting: the event counts as failed, and is sent again.",
			fix:         "answer as soon as the event is stored, and refuse before any work is done.",
		},
		{
			name: "Always/NoCrash", reviews: true, run: (*checker).noCrash,
			consequence: "the caller sees its connection drop; outside of net/http's own protection the whole process ends.",
			fix:         "check what you index, dereference and convert; a request can hold anything.",
		},
		{
			name: "Always/Acknowledged", reviews: true, run: (*checker).acknowledged,
			consequence: "what you have taken counts as failed, is sent five more times, and after 24 hours the address is switched off.",
			fix:         "answer whatever you take in one way, in one place: 200 with the challenge, duplicates and unknown types included.",
		},
		{
			name: "Always/TellsNothing", reviews: true, run: (*checker).tellsNothing,
			consequence: "anyone with the challenge token can answer in your name, anyone with the secret can forge events, and patients' data is in the platform's delivery log, which keeps your answers.",
			fix:         "answer requests whose signature does not verify with a bare 401, all others with the challenge or a bare status, and repeat nothing of a body.",
		},
		{
			name: "Always/HandledOnce", needs: needsHandled, run: (*checker).handledOnce,
			consequence: "an order is shipped twice, though not at once.",
			fix:         "note that an event was handled in the same transaction as what handling it did, and look at that note before every attempt.",
		},
		{
			name: "Always/QuietLogs", needs: needsLogs, reviews: true, run: (*checker).quietLogs,
			consequence: "patients' data, or the keys to your records, can be read by everyone who reads logs, and in every system that they are shipped to.",
			fix:         "log ids, types and reasons: no body, no decoded event, and no error text that quotes one.",
		},
	}
}

// review reports each distinct mistake that a function finds in the exchanges so far,
// with the cases in which it was seen.
func (c *checker) review(bad func(exchange) string) {
	if len(c.exchangesWhere(func(exchange) bool { return true })) == 0 {
		c.reportf("no other case was run, and this one judges what they have seen")
	}
	seenIn := make(map[string][]string) // the cases, by the mistake
	var order []string
	for _, e := range c.exchangesWhere(func(e exchange) bool { return bad(e) != "" }) {
		what := bad(e)
		if seenIn[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(seenIn[what], e.during) {
			seenIn[what] = append(seenIn[what], e.during)
		}
	}
	for _, what := range order {
		c.reportf("%s; seen in %s", what, strings.Join(seenIn[what], ", "))
	}
}

func (c *checker) neverGone() {
	c.review(func(e exchange) string {
		if e.status != http.StatusGone {
			return ""
		}
		return "a request was answered with 410"
	})
}

func (c *checker) inTime() {
	c.review(func(e exchange) string {
		if !e.timedOut() {
			return ""
		}
		return "a request " + c.describe(e)
	})
	if c.slowness != "" {
		c.reportf("%s", c.slowness)
	}
}

func (c *checker) noCrash() {
	c.review(func(e exchange) string {
		// On a socket the refusal of a large body may be lost.
		if !e.dropped() || c.watch == nil && e.during == "Bodies/Large" {
			return ""
		}
		return "a request " + c.describe(e)
	})
	if c.watch == nil {
		return
	}
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	if len(c.watch.panics) > 0 {
		c.reportf("the first of %d panics: %s", len(c.watch.panics), c.watch.panics[0])
	}
}

// dropped reports that a connection ended without an answer, by the receiver.
func (e exchange) dropped() bool {
	return e.err != nil && !e.abandoned && !e.timedOut() && !errors.Is(e.err, context.Canceled)
}

func (c *checker) acknowledged() {
	c.review(func(e exchange) string {
		if !e.genuine || e.err != nil || e.status/100 != 2 {
			return ""
		}
		if wrong := c.acknowledgement(e); wrong != "" {
			return "the answer to an event that was taken " + wrong
		}
		return ""
	})
}

func (c *checker) tellsNothing() {
	c.review(func(e exchange) string {
		leaked := c.leaks(e)
		if len(leaked) == 0 {
			return ""
		}
		whom := "a sender whose signature does not verify"
		if e.genuine {
			whom = "the platform"
		}
		return fmt.Sprintf("an answer tells %s %s", whom, strings.Join(leaked, ", "))
	})
}

// leaks lists what an answer reveals that its caller must not know.
func (c *checker) leaks(e exchange) (what []string) {
	answer := e.answer
	for name, values := range e.header {
		answer += "\n" + name + ": " + strings.Join(values, ", ")
	}
	if !e.genuine && strings.Contains(answer, c.Challenge) {
		what = append(what, "the challenge token")
	}
	for _, secret := range []string{c.Secret, c.Features.OldSecret} {
		if secret != "" && strings.Contains(answer, secret) {
			what = append(what, "the webhook secret")
		}
	}
	return slices.Compact(append(what, c.samples.patient.Find(1, answer)...))
}

// handledOnce looks at every event again, now that all others have been handled.
func (c *checker) handledOnce() {
	c.drain()
	for id, most := range sortedByKey(c.expectedHandled) {
		if got := c.Hooks.Handled(id); got > most {
			c.reportf("event %s has been handled %d times and not %d", id, got, most)
		}
	}
}

func (c *checker) quietLogs() {
	logs := c.Hooks.Logs()
	if logs == "" {
		c.skipped = "Target.Hooks.Logs returned nothing: there is nothing to look through"
		return
	}
	secrets := leak.New([]leak.Secret{
		{What: "the webhook secret", Value: c.Secret}, {What: "the old webhook secret", Value: c.Features.OldSecret}, {What: "the challenge token", Value: c.Challenge},
	})
	c.found = append(c.found, c.samples.patient.Find(1, logs)...)
	c.found = append(c.found, secrets.Find(1, logs)...)
}
