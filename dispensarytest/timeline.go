package dispensarytest

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

//go:embed timeline.html
var timelineHTML string

var timelineTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("timeline").Parse(timelineHTML))
})

// timelineFile is what a failed test leaves in its artifact folder.
const timelineFile = "dispensary-timeline.html"

// moment is one line of a timeline.
type moment struct {
	At     time.Time
	Lane   string // "request", "event", "delivery" or "clock"
	Title  string
	Detail string
	Failed bool
}

// WriteTimeline writes what happened on the platform as one HTML page that needs
// nothing else: requests, events, attempts of delivery and moves of the clock, in
// the order of the platform's time. It holds no body, no query, no name and no
// token; paths are shown as their templates.
//
// A test that fails finds it as dispensary-timeline.html in its artifact folder;
// see the flag -artifacts of go test.
func (s *Server) WriteTimeline(to io.Writer) error {
	moments := s.moments()
	view := struct {
		Region  model.Region
		Now     string
		Frozen  bool
		Moments []moment
		Faults  []string
	}{Region: s.Region(), Now: view.Time(s.clock.Now()), Frozen: s.clock.Frozen(), Moments: moments}
	for _, h := range s.Faults() {
		view.Faults = append(view.Faults, h.String())
	}
	if err := timelineTemplate().Execute(to, view); err != nil {
		return fmt.Errorf("dispensarytest: writing the timeline: %w", err)
	}
	return nil
}

// Clocked is the moment's time as the page shows it.
func (m moment) Clocked() string { return view.Time(m.At) }

func (s *Server) moments() (all []moment) {
	for _, r := range s.journal.Requests() {
		all = append(all, momentOfRequest(r))
	}
	for _, e := range s.Events() {
		all = append(all, moment{At: e.CreatedAt, Lane: "event", Title: e.Type, Detail: e.ID})
	}
	for _, d := range s.Webhooks.Deliveries() {
		for i, a := range d.Attempts {
			all = append(all, momentOfAttempt(a, d, i+1))
		}
	}
	for _, m := range s.clock.Moves() {
		all = append(all, moment{At: m.To, Lane: "clock", Title: "moved by " + m.To.Sub(m.From).String(), Detail: "from " + view.Time(m.From)})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// moment leaves out the path of what is no operation, and the platform's words:
// anything may be in them.
func momentOfRequest(r model.Request) moment {
	m := moment{
		At: r.At, Lane: "request", Failed: r.Status == 0 || r.Status >= 400,
		Title:  fmt.Sprintf("#%d %s → %d", r.Seq, cmp.Or(r.Operation, r.Method+" (no operation)"), r.Status),
		Detail: r.Method + " " + r.Route,
	}
	if r.TokenID != "" {
		m.Detail += ", " + r.TokenID
	}
	if len(r.Scope.Required) > 0 {
		m.Detail += fmt.Sprintf(", scope %v granted %t", r.Scope.Required, r.Scope.Granted)
	}
	for _, f := range r.Faults {
		m.Detail += ", fault " + string(f)
	}
	return m
}

// moment leaves out what the endpoint said.
func momentOfAttempt(a model.Attempt, d model.Delivery, number int) moment {
	m := moment{At: a.At, Lane: "delivery", Failed: a.Err != "", Detail: fmt.Sprintf("event %s, status %d", d.EventID, a.Status)}
	outcome := "ok"
	if m.Failed {
		outcome = "failed"
	}
	m.Title = fmt.Sprintf("%s, attempt %d: %s", d.EventType, number, outcome)
	if a.Fault != "" {
		m.Detail += ", fault " + string(a.Fault)
	}
	return m
}

// leaveTimeline writes the timeline of a test that failed.
func (s *Server) leaveTimeline(t testing.TB) {
	if !t.Failed() {
		return
	}
	// The folder of a test that keeps none goes away while its platforms close.
	folder := t.ArtifactDir()
	if _, err := os.Stat(folder); err != nil {
		return
	}
	path := filepath.Join(folder, timelineFile)
	if _, err := os.Stat(path); err == nil {
		path = filepath.Join(folder, fmt.Sprintf("%d-%s", time.Now().UnixNano(), timelineFile)) // another platform of the test
	}
	file, err := os.Create(path)
	if err == nil {
		err = s.WriteTimeline(file)
		_ = file.Close() // a page that is cut short is no news beside the failure
	}
	if err != nil {
		t.Logf("dispensarytest: no timeline: %v", err)
		return
	}
	t.Logf("dispensarytest: what happened is in %s (kept with go test -artifacts)", path)
}
