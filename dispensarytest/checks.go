package dispensarytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// CheckNoUnexpected fails the test if a request did not match an operation of the API, or
// contained an unknown query parameter or an unread body field. Such a misspelled page[size]
// would only change the size of the response. Each finding contains the closest known name.
func (j *Journal) CheckNoUnexpected(t testing.TB) {
	t.Helper()
	var findings []string
	for _, r := range j.Requests() {
		for _, what := range unexpected(r) {
			findings = append(findings, fmt.Sprintf("%s\n    %s", r, what))
		}
	}
	if len(findings) > 0 {
		t.Errorf("dispensarytest: the platform received unexpected requests:\n  %s", strings.Join(findings, "\n  "))
	}
}

func unexpected(r model.Request) (findings []string) {
	if r.Operation == "" {
		what := "the API does not have this operation"
		if len(r.Near) > 0 {
			what += "; this path has " + strings.Join(r.Near, ", ")
		}
		findings = append(findings, what)
	}
	for _, u := range r.Unknown {
		findings = append(findings, fmt.Sprintf("unknown query parameter %s", u))
	}
	for _, u := range r.Unread {
		findings = append(findings, fmt.Sprintf("unknown body field %s", u))
	}
	return findings
}

// CheckRequested fails the test unless an operation, such as "patients.create", has succeeded
// at least once. It returns the latest such request.
func (j *Journal) CheckRequested(t testing.TB, operation string) model.Request {
	t.Helper()
	found := j.Requests(operation)
	for _, r := range slices.Backward(found) {
		if r.Status != 0 && r.Status < 400 {
			return r
		}
	}
	if len(found) > 0 {
		t.Errorf("dispensarytest: expected %s to succeed; the latest of %d requests was %s", operation, len(found), found[len(found)-1])
		return model.Request{}
	}
	var seen []string
	for _, r := range j.Requests() {
		if r.Operation != "" && !slices.Contains(seen, r.Operation) {
			seen = append(seen, r.Operation)
		}
	}
	text := fmt.Sprintf("dispensarytest: expected a request for %s; there were requests for %q", operation, seen)
	if near := closestmatch.To(operation, operations.IDs()); near != "" && near != operation {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	t.Error(text)
	return model.Request{}
}

// CheckNoNPlusOne fails the test if a caller reads listed objects one by one: after one list,
// more than atMost different objects with one operation and by one user. The list, or another
// one, usually contains the data of such reads already.
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

// insteadOf returns a hint at the list that contains all of the objects.
func insteadOf(operation string) string {
	kind, _, _ := strings.Cut(operation, ".")
	for _, op := range operations.All() {
		if op.List && op.ID == kind+".list" && op.ID != operation && !strings.Contains(op.Route, "{") {
			return "\n    " + op.ID + " reads up to 100 of them at once"
		}
	}
	return ""
}
