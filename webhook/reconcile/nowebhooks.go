package reconcile

import (
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// NoWebhooks is a span of time in which the events of a clinic arrived only by reconciliation. It
// ends with the first event that arrives as a webhook. A reason is an endpoint that the platform
// has disabled.
type NoWebhooks struct {
	// Since is the start of the first run that recovered events, and Last that of the last
	// one. Both are zero if webhooks arrive.
	Since time.Time `json:"since,omitzero"`
	Last  time.Time `json:"last,omitzero"`

	// Runs is the number of runs that recovered events, and Events that of the events.
	Runs   int `json:"runs,omitempty"`
	Events int `json:"events,omitempty"`
}

// minRuns is the number of runs in a row after which missing webhooks are reported. One run alone may
// have been faster than a webhook, or than the platform's next attempt.
const minRuns = 2

// Counts reports whether two runs in a row recovered events and no webhook arrived in between.
func (s NoWebhooks) Counts() bool { return s.Runs >= minRuns }

// arrivals is the evidence of a run about the webhooks of its clinic. All times are of events.
type arrivals struct {
	webhook   time.Time // the newest event that had arrived
	recovered time.Time // the newest event that the run recovered
	events    int       // that it recovered
}

// saw notes a listed event that had arrived. Only an event that is newer than the last run over
// its group is evidence, because that run has recovered older ones.
func (a *arrivals) saw(e events.Event, last progress, now time.Time) {
	if at := e.CreatedAt.Time; !last.Checked.IsZero() && at.After(last.Through) {
		a.webhook = newest(a.webhook, at, now)
	}
}

// after returns the span after a run.
func (s NoWebhooks) after(a arrivals, now time.Time) NoWebhooks {
	switch {
	case a.events > 0 && !a.webhook.After(a.recovered):
		if s.Runs == 0 {
			s.Since = now
		}
		s.Last, s.Runs, s.Events = now, s.Runs+1, s.Events+a.events
	case !a.webhook.IsZero():
		return NoWebhooks{}
	}
	return s
}
