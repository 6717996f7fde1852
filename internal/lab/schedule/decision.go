package schedule

import "time"

// Fate is what becomes of a call.
type Fate string

// The fates. A call names those that it can meet beside Passed, Late and Stalled.
const (
	Passed      Fate = ""                  // it is carried out, and answered
	Refused     Fate = "refused"           // nothing is done, and the caller can know
	Dropped     Fate = "lost on the way"   // nothing is done, and the caller cannot know
	AnswerLost  Fate = "answer lost"       // it is carried out, and the caller cannot know
	Doubled     Fate = "carried out twice" // and answered by the second
	Unavailable Fate = "unavailable"       // something on the way answers 503
	Late        Fate = "answer late"       // it is carried out, and its answer waits for another decision
	Stalled     Fate = "stalled"           // it waits
)

// Kind says what a [Decision] is about.
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
	Process string        // of a call
	Name    string        // of a call or an action
	Fate    Fate          // of a call
	Wait    time.Duration // of time, and of a call that is stalled
}

// String tells the decision.
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
