package engine

import (
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// Counts is the result of [Engine.Count]: the matching events by type, clinic and reason.
type Counts struct {
	// Total is the number of matching events.
	Total int

	// Types and Clinics count the events of each type and clinic, including the empty text.
	Types   map[events.Type]int
	Clinics map[string]int

	// Causes groups the events by reason, including the empty text.
	Causes map[string]Cause

	// Oldest is the arrival time of the event that arrived first. It is zero without events.
	Oldest time.Time

	// Until is the position of the last counted event. Set it as [Filter].Until to match only
	// counted events. It is zero without events.
	Until Position
}

// Cause is the number of counted events with one reason.
type Cause struct {
	Events  int
	Types   map[events.Type]int
	Clinics map[string]int

	// First and Last are the earliest and the latest [Position].At of the events. For dead letters
	// these are the times at which the first and the last one died.
	First, Last time.Time
}
