package dispensarytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// CheckBackoffHonored fails the test if a caller repeats a request before the time
// in a Retry-After: the same operation on the same path, as the same user. It also
// fails if no response carried a Retry-After, because the test then proves nothing.
//
// Only a request sent after the response counts, so calls may overlap. The platform
// sees a request arrive and not leave. A request that arrives within 250 ms of the
// response, or within half the wait if the wait is shorter than 500 ms, therefore
// counts as early only if no repetition follows after the wait.
//
// Times are those of the platform's clock. Use a live clock, also inside
// testing/synctest, or advance a frozen clock while the caller waits.
func (j *Journal) CheckBackoffHonored(t testing.TB) {
	t.Helper()
	requests := j.Requests()
	var waits []wait
	for at, r := range requests {
		if r.RetryAfter > 0 {
			waits = append(waits, wait{Request: r, later: repetitions(r, requests[at+1:])})
		}
	}
	if len(waits) == 0 {
		t.Errorf("dispensarytest: expected callers to honor Retry-After; none of %d responses asked for a wait%s", len(requests), mute(requests))
		return
	}
	markRepeated(waits)
	var findings []string
	for _, w := range waits {
		if next, early := w.early(); early {
			after := next.At.Sub(w.AnsweredAt)
			findings = append(findings, fmt.Sprintf("%s\n    asked for %s, but #%d came after %s, %s too early", w, w.RetryAfter, next.Seq, after, w.RetryAfter-after))
		}
	}
	if len(findings) == 0 {
		return
	}
	hint := ""
	if j.clock.Frozen() {
		hint = "\n  (the platform's clock is frozen: only Clock.Advance lets time pass)"
	}
	t.Errorf("dispensarytest: expected callers to honor Retry-After; some requests came too early:\n  %s%s", strings.Join(findings, "\n  "), hint)
}

// wait is a request whose response asked for a wait.
type wait struct {
	model.Request
	later    []model.Request // the same request, after the response
	repeated bool            // one of later is its repetition, after the wait
}

// inFlight is the longest time that a request sent before a response needs to arrive.
const inFlight = 250 * time.Millisecond

func (w wait) over() time.Time { return w.AnsweredAt.Add(w.RetryAfter) }

// early returns the first request that ignored the wait.
func (w wait) early() (model.Request, bool) {
	under := min(inFlight, w.RetryAfter/2)
	at := slices.IndexFunc(w.later, func(next model.Request) bool {
		onItsWay := next.At.Sub(w.AnsweredAt) <= under
		return next.At.Before(w.over()) && (!onItsWay || !w.repeated)
	})
	if at < 0 {
		return model.Request{}, false
	}
	return w.later[at], true
}

// repetitions returns the requests that arrived after the response to r.
func repetitions(r model.Request, requests []model.Request) (later []model.Request) {
	for _, next := range requests {
		if r.Operation == next.Operation && r.Path == next.Path && r.UserID == next.UserID && !next.At.Before(r.AnsweredAt) {
			later = append(later, next)
		}
	}
	return later
}

// markRepeated assigns each wait its own repetition. The wait that ends first gets the first
// request after it, so that as many waits as possible have a repetition.
func markRepeated(waits []wait) {
	order := make([]*wait, len(waits))
	for i := range waits {
		order[i] = &waits[i]
	}
	slices.SortStableFunc(order, func(a, b *wait) int { return a.over().Compare(b.over()) })
	taken := make(map[int]bool) // by number
	for _, w := range order {
		first := -1
		for at, next := range w.later {
			if !taken[next.Seq] && !next.At.Before(w.over()) && (first < 0 || next.At.Before(w.later[first].At)) {
				first = at
			}
		}
		if first >= 0 {
			w.repeated, taken[w.later[first].Seq] = true, true
		}
	}
}

// mute describes the closest miss of a wait: a 429 without a Retry-After.
func mute(requests []model.Request) string {
	at := slices.IndexFunc(requests, func(r model.Request) bool { return r.Status == http.StatusTooManyRequests })
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("; the closest is %s, without a Retry-After", requests[at])
}
