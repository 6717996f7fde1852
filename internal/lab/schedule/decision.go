package schedule

import "time"

// Fate is the outcome of a call.
type Fate string

// The fates. Every call can meet Passed, Late and Stalled. [Spec] lists the others.
const (
	Passed      Fate = ""              // the call runs and returns
	Refused     Fate = "rejected"      // the call does not run, and the caller knows it
	Dropped     Fate = "request lost"  // the call does not run, but the caller cannot know
	AnswerLost  Fate = "response lost" // the call runs, but the caller cannot know
	Doubled     Fate = "run twice"     // the call runs twice and returns the second result
	Unavailable Fate = "unavailable"   // an intermediary responds with 503
	Late        Fate = "response late" // the call runs, and its response needs another decision
	Stalled     Fate = "stalled"       // the call waits
)

// Kind is the kind of a [Decision].
type Kind string

// The kinds of decisions.
const (
	Call   Kind = "call"
	Action Kind = "action"
	Time   Kind = "time"
)

// Decision is one step of a schedule.
type Decision struct {
	Kind    Kind
	Process string        // for a call
	Name    string        // for a call or an action
	Fate    Fate          // for a call
	Wait    time.Duration // for Time, and for a stalled call
}

// String describes the decision.
func (d Decision) String() string {
	switch d.Kind {
	case Action:
		return d.Name
	case Time:
		return "up to " + d.Wait.String() + " pass"
	}
	text := d.Process + ": " + d.Name
	if d.Fate != Passed {
		text += " (" + string(d.Fate) + ")"
	}
	if d.Fate == Stalled {
		text += " for " + d.Wait.String()
	}
	return text
}
