package engine

import (
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// Counts is how many events a [Filter] matches.
type Counts struct {
	Total int

	// Types and Clinics are how many of them have each type and clinic; empty texts included.
	Types   map[events.Type]int
	Clinics map[string]int

	// Causes are the events by reason, the empty text included.
	Causes map[string]Cause

	// Oldest is when the one arrived that arrived first; zero if there is none.
	Oldest time.Time

	// Until is the position of the last that was counted: with it the filter matches
	// these and no others. It is zero if there is none.
	Until Position
}

// Cause is the number of counted events with one reason.
type Cause struct {
	Events  int
	Types   map[events.Type]int
	Clinics map[string]int

	// First and Last are the earliest and the latest [Position].At of the events: the times at
	// which the first and the last dead letter was given up.
	First, Last time.Time
}

// Group is a number of events with one type, clinic and reason.
type Group struct {
	Type             events.Type
	ClinicID, Reason string
	Events           int

	// Oldest is the time at which the first of them arrived.
	Oldest time.Time

	// First and Last are as in [Cause].
	First, Last time.Time
}

// Add counts the events of a group.
func (c *Counts) Add(g Group) {
	if c.Total == 0 {
		c.Types, c.Clinics, c.Causes = map[events.Type]int{}, map[string]int{}, map[string]Cause{}
	}
	c.Total += g.Events
	c.Types[g.Type] += g.Events
	c.Clinics[g.ClinicID] += g.Events
	if c.Oldest.IsZero() || g.Oldest.Before(c.Oldest) {
		c.Oldest = g.Oldest
	}
	cause, found := c.Causes[g.Reason]
	if !found {
		cause = Cause{Types: map[events.Type]int{}, Clinics: map[string]int{}, First: g.First, Last: g.Last}
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
