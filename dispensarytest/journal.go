package dispensarytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Journal contains the latest requests. See Tuning.JournalLimit.
type Journal struct {
	changes *clock.Notifier
	clock   *clock.Clock
	limit   int

	mu   sync.Mutex
	seq  int
	ring []model.Request // at limit entries it is full, and seq determines the oldest
}

func (j *Journal) add(r *model.Request) {
	defer j.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	r.Seq = j.seq
	if len(j.ring) < j.limit {
		j.ring = append(j.ring, *r)
		return
	}
	j.ring[(j.seq-1)%j.limit] = *r
}

// Requests returns the recorded requests of the given operations, for example
// "patients.create", or of all operations without arguments. The oldest is first.
func (j *Journal) Requests(operations ...string) []model.Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Clone(j.ring)
	if len(j.ring) == j.limit {
		oldest := j.seq % j.limit
		all = slices.Concat(j.ring[oldest:], j.ring[:oldest])
	}
	if len(operations) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(r model.Request) bool { return !slices.Contains(operations, r.Operation) })
}

// Reset deletes all requests, so that a test can check its next step separately.
func (j *Journal) Reset() {
	defer j.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring, j.seq = nil, 0
}

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
			after := next.At.Sub(w.RespondedAt)
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

func (w wait) over() time.Time { return w.RespondedAt.Add(w.RetryAfter) }

// early returns the first request that ignored the wait.
func (w wait) early() (model.Request, bool) {
	under := min(inFlight, w.RetryAfter/2)
	at := slices.IndexFunc(w.later, func(next model.Request) bool {
		onItsWay := next.At.Sub(w.RespondedAt) <= under
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
		if r.Operation == next.Operation && r.Path == next.Path && r.UserID == next.UserID && !next.At.Before(r.RespondedAt) {
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

// CheckNoLeak fails the test if a text, such as a log or the dump of a span, contains one of
// the platform's secrets. It finds values of patients (names, e-mail address, date of birth,
// phone number, street, metadata id), tokens, codes, clinic keys, passwords of users, and the
// application's secrets. It finds them as plain text and URL-, base64- or hex-encoded. Ids are
// not secret. Names match only as whole words, and only names of three letters or more.
//
// The failure shows the owner and the place of each value, and the line without the value.
func (s *Server) CheckNoLeak(t testing.TB, texts ...string) {
	t.Helper()
	search := leak.New(s.secrets())
	var findings []string
	for i, text := range texts {
		findings = append(findings, search.Find(i+1, text)...)
	}
	const shown = 20
	if n := len(findings); n > shown {
		findings = append(findings[:shown], fmt.Sprintf("and %d more", n-shown))
	}
	if len(findings) > 0 {
		t.Errorf("dispensarytest: expected no patient value, token or secret of the platform; found\n  %s", strings.Join(findings, "\n  "))
	}
}

// secrets returns all values that must not leak.
func (s *Server) secrets() []leak.Secret {
	app := s.Application()
	all := []leak.Secret{
		{What: "the client secret", Value: app.ClientSecret}, {What: "the webhook secret", Value: app.WebhookSecret}, {What: "the challenge token", Value: app.ChallengeToken},
	}
	s.tokens.Values(func(what, value string) { all = append(all, leak.Secret{What: what, Value: value}) })
	held := s.store
	held.RLock()
	defer held.RUnlock()
	for _, i := range held.World.Integrations.Rows {
		all = append(all, leak.Secret{What: "a clinic key", Value: i.Key})
	}
	for _, u := range held.World.Users.Rows {
		all = append(all, leak.Secret{What: "the password of user " + u.ID, Value: u.Password})
	}
	for _, p := range held.World.Patients.Rows {
		all = append(all, leak.OfPatient("patient "+p.ID, p)...)
	}
	for _, a := range held.World.Addresses.Rows {
		all = append(all, leak.Secret{What: "the street of patient " + a.PatientID, Value: a.Address1})
	}
	return all
}
