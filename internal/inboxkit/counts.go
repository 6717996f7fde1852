package inboxkit

import (
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Group is a number of events of one type, clinic and reason.
type Group struct {
	Type             events.Type
	ClinicID, Reason string
	Events           int

	// Oldest is the arrival time of the first event.
	Oldest time.Time

	// First and Last are as in [engine.Cause].
	First, Last time.Time

	// Seq is [engine.Position].Seq of the last event of all groups. AddTo ignores it.
	Seq int64
}

// AddTo adds the events of the group to c.
func (g Group) AddTo(c *engine.Counts) {
	if c.Total == 0 {
		c.Types, c.Clinics, c.Causes = map[events.Type]int{}, map[string]int{}, map[string]engine.Cause{}
	}
	c.Total += g.Events
	c.Types[g.Type] += g.Events
	c.Clinics[g.ClinicID] += g.Events
	if c.Oldest.IsZero() || g.Oldest.Before(c.Oldest) {
		c.Oldest = g.Oldest
	}
	cause, found := c.Causes[g.Reason]
	if !found {
		cause = engine.Cause{Types: map[events.Type]int{}, Clinics: map[string]int{}, First: g.First, Last: g.Last}
	}
	cause.Events += g.Events
	cause.Types[g.Type] += g.Events
	cause.Clinics[g.ClinicID] += g.Events
	if g.First.Before(cause.First) {
		cause.First = g.First
	}
	if g.Last.After(cause.Last) {
		cause.Last = g.Last
	}
	c.Causes[g.Reason] = cause
}
