package dispensarytest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
)

func alwaysCases() []receiverCase {
	return []receiverCase{
		{
			name: "NeverGone", judges: true, run: (*examination).neverGone,
			consequence: "the first 410 switches the address off, at once and for every event, until somebody opens the dashboard.",
			fix:         "answer with 410 never, not for an unknown tenant either; 404 and 401 do less harm.",
		},
		{
			name: "InTime", judges: true, run: (*examination).inTime,
			consequence: "the platform stops waiting: the event counts as failed, and is sent again.",
			fix:         "answer as soon as the event is stored, and refuse before any work is done.",
		},
		{
			name: "NoCrash", judges: true, run: (*examination).noCrash,
			consequence: "the caller sees its connection drop; outside of net/http's own protection the whole process ends.",
			fix:         "check what you index, dereference and convert; what comes in is anybody's.",
		},
		{
			name: "Acknowledged", judges: true, run: (*examination).acknowledged,
			consequence: "what you have taken counts as failed, is sent five more times, and after 24 hours the address is switched off.",
			fix:         "answer whatever you take in one way, in one place: 200 with the challenge, duplicates and unknown types included.",
		},
		{
			name: "TellsNothing", judges: true, run: (*examination).tellsNothing,
			consequence: "who has the challenge token can answer in your name, who has the secret can forge events, and patients' data is in the platform's delivery log, which keeps your answers.",
			fix:         "answer those whose signature does not verify with a bare 401, everybody else with the challenge or a bare status, and repeat nothing of a body.",
		},
		{
			name: "HandledOnce", needs: hookHandled, run: (*examination).handledOnce,
			consequence: "an order is shipped twice, though not at once.",
			fix:         "note that an event was handled in the same transaction as what handling it did, and look at that note before every attempt.",
		},
		{
			name: "QuietLogs", needs: hookLogs, judges: true, run: (*examination).quietLogs,
			consequence: "patients' data, or the keys to your records, are readable for everyone who reads logs, and in every system that they are shipped to.",
			fix:         "log ids, types and reasons: no body, no decoded event, and no error text that quotes one.",
		},
	}
}

// judge demands that no exchange so far is what a test says.
func (x *examination) judge(bad func(exchange) string) {
	if len(x.of(func(exchange) bool { return true })) == 0 {
		x.finding("no other case was run, and this one judges what they have seen")
	}
	by := make(map[string][]string) // what was found, and in which cases
	var order []string
	for _, e := range x.of(func(e exchange) bool { return bad(e) != "" }) {
		what := bad(e)
		if by[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(by[what], e.during) {
			by[what] = append(by[what], e.during)
		}
	}
	for _, what := range order {
		x.finding("%s; seen in %s", what, strings.Join(by[what], ", "))
	}
}

func (x *examination) neverGone() {
	x.judge(func(e exchange) string {
		if e.status != http.StatusGone {
			return ""
		}
		return "a request was answered with 410"
	})
}

func (x *examination) inTime() {
	x.judge(func(e exchange) string {
		if !e.timedOut() {
			return ""
		}
		return "a request " + x.describe(e)
	})
	if x.pace != "" {
		x.finding("%s", x.pace)
	}
}

func (x *examination) noCrash() {
	x.judge(func(e exchange) string {
		// On a socket the refusal of a large body may be lost.
		if !e.dropped() || x.watch == nil && e.during == "Bodies/Large" {
			return ""
		}
		return "a request " + x.describe(e)
	})
	if x.watch == nil {
		return
	}
	x.watch.mu.Lock()
	defer x.watch.mu.Unlock()
	if len(x.watch.panics) > 0 {
		x.finding("the first of %d panics: %s", len(x.watch.panics), x.watch.panics[0])
	}
}

// dropped reports that a connection ended without an answer, by the receiver.
func (e exchange) dropped() bool {
	return e.err != nil && !e.left && !e.timedOut() && !errors.Is(e.err, context.Canceled)
}

func (x *examination) acknowledged() {
	x.judge(func(e exchange) string {
		if !e.genuine || e.err != nil || e.status/100 != 2 {
			return ""
		}
		if wrong := x.acknowledgement(e); wrong != "" {
			return "the answer to an event that was taken " + wrong
		}
		return ""
	})
}

func (x *examination) tellsNothing() {
	x.judge(func(e exchange) string {
		told := x.told(e)
		if len(told) == 0 {
			return ""
		}
		whom := "somebody whose signature does not verify"
		if e.genuine {
			whom = "the platform"
		}
		return fmt.Sprintf("an answer tells %s %s", whom, strings.Join(told, ", "))
	})
}

// told lists what an answer reveals of what its caller must not know.
func (x *examination) told(e exchange) (what []string) {
	answer := e.answer
	for name, values := range e.header {
		answer += "\n" + name + ": " + strings.Join(values, ", ")
	}
	if !e.genuine && strings.Contains(answer, x.Challenge) {
		what = append(what, "the challenge token")
	}
	for _, secret := range []string{x.Secret, x.OldSecret} {
		if secret != "" && strings.Contains(answer, secret) {
			what = append(what, "the webhook secret")
		}
	}
	return slices.Compact(append(what, x.patient.Find(1, answer)...))
}

// handledOnce looks at every event again, now that all others have been handled.
func (x *examination) handledOnce() {
	x.catchUp()
	for id, most := range sorted(x.ledger) {
		if got := x.Handled(id); got > most {
			x.finding("event %s has been handled %d times and not %d", id, got, most)
		}
	}
}

func (x *examination) quietLogs() {
	logs := x.Logs()
	if logs == "" {
		x.skipped = "Receiver.Logs returned nothing: there is nothing to look through"
		return
	}
	secrets := leak.New([]leak.Secret{
		{What: "the webhook secret", Value: x.Secret}, {What: "the old webhook secret", Value: x.OldSecret}, {What: "the challenge token", Value: x.Challenge},
	})
	x.found = append(x.found, x.patient.Find(1, logs)...)
	x.found = append(x.found, secrets.Find(1, logs)...)
}
