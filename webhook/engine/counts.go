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
