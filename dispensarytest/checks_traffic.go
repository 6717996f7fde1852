package dispensarytest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// CheckBackoffHonoured fails the test if a caller came back before the time that a
// Retry-After had named: with the same operation on the same path, as the same
// user. Times are those of the platform's clock, so it has to be a live one, or
// one that is advanced while the caller waits. It fails as well if nothing asked
// for a wait: then the test proved nothing.
func (j *Journal) CheckBackoffHonoured(t testing.TB) {
	t.Helper()
	requests := j.Requests()
	asked := 0
	var findings []string
	for i, r := range requests {
		if r.RetryAfter == 0 {
			continue
		}
		asked++
		again := slices.IndexFunc(requests[i+1:], func(next model.Request) bool { return sameRequest(r, next) })
		if again < 0 {
			continue
		}
		next := requests[i+1+again]
		if waited := next.At.Sub(r.At); waited < r.RetryAfter {
			findings = append(findings, fmt.Sprintf("%s\n    asked for %s, but #%d came after %s, %s too early", r, r.RetryAfter, next.Seq, waited, r.RetryAfter-waited))
		}
	}
	switch {
	case asked == 0:
		t.Errorf("dispensarytest: expected callers to honour Retry-After; none of %d requests was told to wait%s", len(requests), mute(requests))
	case len(findings) > 0:
		hint := ""
		if j.srv.clock.Frozen() {
			hint = "\n  (the platform's clock is frozen: only Clock.Advance lets time pass)"
		}
		t.Errorf("dispensarytest: expected callers to honour Retry-After; they came back early:\n  %s%s", strings.Join(findings, "\n  "), hint)
	}
}

// mute is the nearest miss of a wait: a 429 that named none.
func mute(requests []model.Request) string {
	at := slices.IndexFunc(requests, func(r model.Request) bool { return r.Status == http.StatusTooManyRequests })
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("; the nearest is %s, which named no time", requests[at])
}

// sameRequest reports that a request is another one again.
func sameRequest(r, next model.Request) bool {
	return r.Operation == next.Operation && r.Path == next.Path && r.UserID == next.UserID
}

// CheckNoNPlusOne fails the test if objects were read one by one that a list had
// named before: more than atMost different ones, with one operation, by one user,
// after one list. What was asked for once for each item of a list is usually in the
// list already, or in another one.
func (j *Journal) CheckNoNPlusOne(t testing.TB, atMost int) {
	t.Helper()
	type group struct {
		parent int // the list's number
		user   string
		child  string
	}
	var order []group
	lists, paths, parents := map[string]model.Request{}, map[group][]string{}, map[group]model.Request{}
	for _, r := range j.Requests() {
		switch op := operationByID(r.Operation); {
		case r.Method != http.MethodGet || r.Status != http.StatusOK:
		case op != nil && op.List && !strings.Contains(r.Route, "{"):
			if before, known := lists[r.UserID]; !known || before.Operation != r.Operation {
				lists[r.UserID] = r // the pages of one list are one parent
			}
		case strings.Contains(r.Route, "{"):
			parent, known := lists[r.UserID]
			g := group{parent.Seq, r.UserID, r.Operation}
			if !known || slices.Contains(paths[g], r.Path) {
				continue
			}
			if paths[g] == nil {
				order, parents[g] = append(order, g), parent
			}
			paths[g] = append(paths[g], r.Path)
		}
	}
	var findings []string
	for _, g := range order {
		if n := len(paths[g]); n > atMost {
			findings = append(findings, fmt.Sprintf("%s %d times, for different objects, after %s%s", g.child, n, parents[g], insteadOf(g.child)))
		}
	}
	if len(findings) > 0 {
		t.Errorf("dispensarytest: expected at most %d reads of single objects after a list (N+1); there were\n  %s", atMost, strings.Join(findings, "\n  "))
	}
}

func operationByID(id string) *operations.Operation {
	all := operations.All()
	if at := slices.IndexFunc(all, func(op operations.Operation) bool { return op.ID == id }); at >= 0 {
		return &all[at]
	}
	return nil
}

// insteadOf names the list that would have answered in one go.
func insteadOf(operation string) string {
	kind, _, _ := strings.Cut(operation, ".")
	for _, op := range operations.All() {
		if op.List && op.ID == kind+".list" && op.ID != operation && !strings.Contains(op.Route, "{") {
			return "\n    " + op.ID + " reads up to 100 of them at once"
		}
	}
	return ""
}

// CheckDelivered fails the test unless an event was delivered for every integration
// it concerns; what is due is waited for, but not longer than the test runs. See
// [Server.WaitDelivered].
func (s *Server) CheckDelivered(t testing.TB, events ...model.Event) {
	t.Helper()
	for _, e := range events {
		if err := s.WaitDelivered(t.Context(), e.ID); err != nil {
			t.Errorf("%v%s", err, s.otherDeliveries(e))
		}
	}
}

// otherDeliveries tells what became of the events around one.
func (s *Server) otherDeliveries(e model.Event) string {
	var lines []string
	for _, d := range slices.Backward(s.Deliveries()) {
		if d.EventID != e.ID && len(lines) < 3 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", d.EventType, d.EventID, d))
		}
	}
	text := fmt.Sprintf("\n  it is %s of %s", cmp.Or(e.Type, "an event without type, which an action that makes none returns,"), e.CreatedAt.Format(time.RFC3339))
	if len(lines) > 0 {
		text += "\n  the latest other deliveries:\n    " + strings.Join(lines, "\n    ")
	}
	return text
}
