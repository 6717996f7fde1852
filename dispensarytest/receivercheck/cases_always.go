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

// dropped reports whether the receiver closed the connection without a response.
func (e exchange) dropped() bool {
	return e.err != nil && !e.abandoned && !e.timedOut() && !errors.Is(e.err, context.Canceled)
}

// leaks lists the secrets and patient data in a response that its caller must not see.
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
