//go:build unix

package histories_test

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dispensary-go/dispensary/webhook"
)

// The calls of an inbox, and what it does itself: Claim is what has come before a handler
// begins, Settle what is recorded after its end.
const (
	opAccept  = "Accept"
	opClaim   = "Claim"
	opSettle  = "Settle"
	opReplay  = "Replay"
	opDiscard = "Discard"
	opList    = "List"
)

// inboxCall is a call for one event. Times are nanoseconds of the clock that all processes
// share.
type inboxCall struct {
	ID      string
	Op      string
	Event   string
	Process string         // that began the attempt, for Claim
	Attempt int            `json:",omitempty"` // its number, for Claim
	Claim   string         `json:",omitempty"` // the ID of the Claim, for Settle
	Result  webhook.Result `json:",omitempty"` // what is to be recorded, for Settle
	Call    int64
	Return  int64
	lease   time.Duration // how long a claim lasts without a sign of life; 0 if as long as the process
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
	since    int64  // no claim was made of it before
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
		return unknown || r.N == 0, eventState{phase: phaseWaiting, since: c.Call}
	case opClaim:
		return s.claimed(c)
	case opSettle:
		switch mine := s.phase == phaseRunning && s.claim == c.Claim; {
		case mine:
			// One that is lost may have been recorded all the same, by a try whose answer was
			// cut off, before a person changed what had become of it.
			return r.Err != errClaimLost || c.lease > 0, s.settled(c, r)
		default:
			return r.Err != "", s
		}
	case opReplay, opDiscard:
		if s.phase != phaseDead {
			return unknown || r.N == 0, s
		}
		if c.Op == opReplay {
			return unknown || r.N == 1, eventState{phase: phaseWaiting, since: c.Call}
		}
		return unknown || r.N == 1, eventState{phase: phaseDone}
	}
	return unknown || r.State == s.listed(), s
}

// claimed is the state after a claim. Claims that no handler was begun for count as
// attempts, too: their process was killed, or did not get the answer.
func (s eventState) claimed(c inboxCall) (bool, eventState) {
	if s.phase != phaseWaiting && s.phase != phaseRunning || c.Attempt <= s.attempts {
		return false, s
	}
	lost := c.Attempt - s.attempts - 1 // claims
	if s.phase == phaseRunning {
		lost++
	}
	if c.lease > 0 && c.Return+slack < s.since+int64(lost)*c.lease.Nanoseconds() {
		return false, s // one of them has not ended
	}
	if c.lease == 0 && lost > 0 && s.process == c.Process {
		return false, s
	}
	return true, eventState{phase: phaseRunning, attempts: c.Attempt, claim: c.ID, process: c.Process, since: s.since}
}

// settled is the state after the outcome of an attempt was recorded.
func (s eventState) settled(c inboxCall, r inboxResult) eventState {
	switch {
	case r.Returned:
		return eventState{phase: phaseWaiting, attempts: s.attempts - 1, since: c.Call}
	case c.Result == webhook.ResultHandled:
		return eventState{phase: phaseDone}
	case c.Result == webhook.ResultDead:
		return eventState{phase: phaseDead}
	}
	return eventState{phase: phaseWaiting, attempts: s.attempts, since: c.Call}
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
func eventHistories(calls []inboxCall, results map[string]inboxResult, lease time.Duration) map[string][]porcupine.Operation {
	all := map[string][]porcupine.Operation{}
	for _, c := range calls {
		r, returned := results[c.ID]
		c.lease, c.Return = lease, r.Return
		switch {
		case c.Op == opClaim: // which is noted when it has been made
			c.Call, c.Return = 0, c.Call
		case !returned || r.Err == errUnknown:
			r.Err, c.Return = errUnknown, math.MaxInt64
		}
		all[c.Event] = append(all[c.Event], porcupine.Operation{Input: c, Call: c.Call, Output: r, Return: c.Return})
	}
	return all
}
