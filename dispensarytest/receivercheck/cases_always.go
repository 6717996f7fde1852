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

var alwaysCases = []testCase{
	{
		name: "Always/NeverGone", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) { return "a request was answered with 410", e.status == http.StatusGone })
		},
		consequence: "the first 410 switches the address off, at once and for every event, until it is switched on again in the dashboard.",
		fix:         "answer with 410 never, not for an unknown tenant either; 404 and 401 do less harm.",
	},
	{
		name: "Always/InTime", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) { return "a request " + c.describe(e), e.timedOut() })
			if c.slowness != "" {
				c.reportf("%s", c.slowness)
			}
		},
		consequence: "the platform stops waiting: the event counts as failed, and is sent again.",
		fix:         "answer as soon as the event is stored, and refuse before any work is done.",
	},
	{
		name: "Always/NoCrash", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) {
				// On a socket the refusal of a large body may be lost.
				lost := c.watch == nil && e.during == "Bodies/Large"
				return "a request " + c.describe(e), e.dropped() && !lost
			})
			if c.watch != nil {
				c.found = append(c.found, c.watch.reportPanics()...)
			}
		},
		consequence: "the caller sees its connection drop; outside of net/http's own protection the whole process ends.",
		fix:         "check what you index, dereference and convert; a request can hold anything.",
	},
	{
		name: "Always/Acknowledged", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) {
				wrong := c.acknowledgement(e)
				return "the answer to an event that was taken " + wrong, e.genuine && e.accepted() && wrong != ""
			})
		},
		consequence: "what you have taken counts as failed, is sent five more times, and after 24 hours the address is switched off.",
		fix:         "answer whatever you take in one way, in one place: 200 with the challenge, duplicates and unknown types included.",
	},
	{
		name: "Always/TellsNothing", reviews: true,
		run: func(c *checker) {
			c.review(func(e exchange) (string, bool) {
				whom := "a sender whose signature does not verify"
				if e.genuine {
					whom = "the platform"
				}
				leaked := c.leaks(e)
				return fmt.Sprintf("an answer tells %s %s", whom, strings.Join(leaked, ", ")), len(leaked) > 0
			})
		},
		consequence: "anyone with the challenge token can answer in your name, anyone with the secret can forge events, and patients' data is in the platform's delivery log, which keeps your answers.",
		fix:         "answer requests whose signature does not verify with a bare 401, all others with the challenge or a bare status, and repeat nothing of a body.",
	},
	{
		// Every event is counted again, now that all others have been handled.
		name: "Always/HandledOnce", needs: needsHandled,
		run: func(c *checker) {
			c.drain()
			for id := range sortedByKey(c.expectedHandled) {
				c.notHandledAgain(id)
			}
		},
		consequence: "an order is shipped twice, though not at once.",
		fix:         "note that an event was handled in the same transaction as what handling it did, and look at that note before every attempt.",
	},
	{
		name: "Always/QuietLogs", needs: needsLogs, reviews: true,
		run: func(c *checker) {
			logs := c.Hooks.Logs()
			if logs == "" {
				c.skipped = "Target.Hooks.Logs returned nothing: there is nothing to look through"
				return
			}
			c.found = append(c.samples.patient.Find(1, logs), leak.New([]leak.Secret{
				{What: "the webhook secret", Value: c.Secret}, {What: "the old webhook secret", Value: c.Features.OldSecret}, {What: "the challenge token", Value: c.Challenge},
			}).Find(1, logs)...)
		},
		consequence: "patients' data, or the keys to your records, can be read by everyone who reads logs, and in every system that they are shipped to.",
		fix:         "log ids, types and reasons: no body, no decoded event, and no error text that quotes one.",
	},
}

// review reports each distinct mistake that a function finds in the exchanges so far,
// with the cases in which it was seen.
func (c *checker) review(find func(exchange) (mistake string, made bool)) {
	if len(c.exchanges) == 0 {
		c.reportf("no other case was run, and this one judges what they have seen")
	}
	seenIn := make(map[string][]string) // the cases, by the mistake
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

// dropped reports that a connection ended without an answer, by the receiver.
func (e exchange) dropped() bool {
	return e.err != nil && !e.abandoned && !e.timedOut() && !errors.Is(e.err, context.Canceled)
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
