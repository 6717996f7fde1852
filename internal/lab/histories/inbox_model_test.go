//go:build unix

package histories_test

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dispensary-go/dispensary/webhook"
)

// The calls of an inbox, and what it does itself: Claim is what has come before a handler
// begins, Settle what is recorded after its end. Lapse is no call: the context of a handler has
// ended, and others may begin with its event.
const (
	opAccept  = "Accept"
	opClaim   = "Claim"
	opSettle  = "Settle"
	opReplay  = "Replay"
	opDiscard = "Discard"
	opList    = "List"
	opLapse   = "Lapse"
)

// inboxCall is a call for one event. Times are nanoseconds of the clock that all processes
// share.
type inboxCall struct {
	ID      string
	Op      string
	Event   string
	Process string         // that began the attempt, for Claim
	Attempt int            `json:",omitempty"` // its number, for Claim
	Claim   string         `json:",omitempty"` // the ID of the Claim, for Settle and Lapse
	Result  webhook.Result `json:",omitempty"` // what is to be recorded, for Settle
	Call    int64
	Return  int64

	takeOver time.Duration // how long a process may give no sign of life; 0 if no other one ever has its events
	over     int64         // when the handler or its context ended, for Claim; 0 if the process was killed before
}

// inboxResult is what a call returned.
type inboxResult struct {
	ID       string
	Err      string `json:",omitempty"` // errUnknown, or errClaimLost for Settle
	N        int    `json:",omitempty"` // of Replay and Discard; 1 for an Accept of what is there
	State    string `json:",omitempty"` // of List, empty if there is none
	Returned bool   `json:",omitempty"` // of Settle: the handler failed after its context had ended, and it was no attempt
	Return   int64
}

// errClaimLost: Settle has found nothing to record, as the event does not belong to the
// claim, any more.
const errClaimLost = "claim lost"

// eventState is what an inbox knows of an event. The zero value is nothing.
type eventState struct {
	phase    phase
	attempts int
	claim    string // that it belongs to
	process  string // and its process
	begun    int64  // when its handler began
	over     int64  // when it, or its context, ended
}

type phase string

const (
	phaseNone    phase = ""
	phaseWaiting phase = "waiting"
	phaseRunning phase = "running"
	phaseDead    phase = "dead"
	phaseDone    phase = "done"
)

// inboxStep is the sequential inbox: it reports whether a call could return what it did,
// and the state after it.
func inboxStep(s eventState, c inboxCall, r inboxResult) (bool, eventState) {
	unknown := r.Err == errUnknown
	switch c.Op {
	case opAccept:
		if s.phase != phaseNone {
			return unknown || r.N == 1, s
		}
		return unknown || r.N == 0, eventState{phase: phaseWaiting}
	case opClaim:
		return s.claimed(c)
	case opSettle:
		switch mine := s.phase == phaseRunning && s.claim == c.Claim; {
		case mine:
			// One that is lost may have been recorded all the same, by a try whose answer was
			// cut off, before a person changed what had become of it.
			return r.Err != errClaimLost || c.takeOver > 0, s.settled(c, r)
		default:
			return r.Err != "", s
		}
	case opReplay, opDiscard:
		if s.phase != phaseDead {
			return unknown || r.N == 0, s
		}
		if c.Op == opReplay {
			return unknown || r.N == 1, eventState{phase: phaseWaiting}
		}
		return unknown || r.N == 1, eventState{phase: phaseDone}
	}
	return unknown || r.State == s.listed(), s
}

// late is how much later than its time a process may notice that its handlers have to end.
const late = 100 * time.Millisecond

// claimed is the state after a claim. Claims that no handler was begun for count as
// attempts, too: their process was killed, or did not get the answer, or had been taken for dead
// and lost what it fetched before its next sign of life.
func (s eventState) claimed(c inboxCall) (bool, eventState) {
	switch {
	case s.phase != phaseWaiting && s.phase != phaseRunning, c.Attempt <= s.attempts:
		return false, s
	case c.takeOver == 0 && (s.phase == phaseRunning || c.Attempt > s.attempts+1) && s.process == c.Process:
		return false, s
	case c.takeOver > 0 && s.overtaken(c):
		return false, s
	}
	return true, eventState{phase: phaseRunning, attempts: c.Attempt, claim: c.ID, process: c.Process, begun: c.Return, over: c.over}
}

// overtaken reports that a claim is of an event whose handler runs and has been told nothing.
// That is of a process which has given a sign of life in the last two thirds of the time.
func (s eventState) overtaken(c inboxCall) bool {
	return s.phase == phaseRunning && s.begun <= c.Return && c.Return+slack < s.begun+int64(c.takeOver/3) &&
		(s.over == 0 || c.Return+int64(late) < s.over)
}

// settled is the state after the outcome of an attempt was recorded.
func (s eventState) settled(c inboxCall, r inboxResult) eventState {
	switch {
	case r.Returned:
		return eventState{phase: phaseWaiting, attempts: s.attempts - 1}
	case c.Result == webhook.ResultHandled:
		return eventState{phase: phaseDone}
	case c.Result == webhook.ResultDead:
		return eventState{phase: phaseDead}
	}
	return eventState{phase: phaseWaiting, attempts: s.attempts}
}

// listed is the state that a list shows: what waits is shown like what is handled, as a
// claim can end unnoticed.
func (s eventState) listed() string {
	switch s.phase {
	case phaseWaiting, phaseRunning:
		return string(phaseWaiting)
	case phaseDead:
		return string(phaseDead)
	}
	return ""
}

// inboxModel is the inbox of one event.
var inboxModel = porcupine.Model{
	Init: func() any { return eventState{} },
	Step: func(state, input, output any) (bool, any) {
		return inboxStep(state.(eventState), input.(inboxCall), output.(inboxResult))
	},
}

// eventHistories returns the history of each event.
func eventHistories(calls []inboxCall, results map[string]inboxResult, takeOver time.Duration) map[string][]porcupine.Operation {
	over := map[string]int64{}
	for _, c := range calls {
		if at, known := over[c.Claim]; (c.Op == opLapse || c.Op == opSettle) && (!known || c.Call < at) {
			over[c.Claim] = c.Call
		}
	}
	all := map[string][]porcupine.Operation{}
	for _, c := range calls {
		r, returned := results[c.ID]
		c.takeOver, c.Return, c.over = takeOver, r.Return, over[c.ID]
		switch {
		case c.Op == opLapse:
			continue
		case c.Op == opClaim: // which is noted when it has been made
			c.Call, c.Return = 0, c.Call
		case !returned || r.Err == errUnknown:
			r.Err, c.Return = errUnknown, math.MaxInt64
		}
		all[c.Event] = append(all[c.Event], porcupine.Operation{Input: c, Call: c.Call, Output: r, Return: c.Return})
	}
	return all
}
