//go:build unix

package histories_test

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dispensary-go/dispensary/webhook"
)

// The calls of an inbox and its own operations. Claim happens before a handler starts, and Settle
// records its outcome. Lapse is not a call: the context of a handler has ended, and other handlers
// may start with its event.
const (
	opAccept  = "Accept"
	opClaim   = "Claim"
	opSettle  = "Settle"
	opReplay  = "Replay"
	opDiscard = "Discard"
	opList    = "List"
	opLapse   = "Lapse"
)

// inboxCall is a call for one event. Times are nanoseconds of the clock shared by all processes.
type inboxCall struct {
	ID      string
	Op      string
	Event   string
	Process string         // process of the attempt, for Claim
	Attempt int            `json:",omitempty"` // number of the attempt, for Claim
	Claim   string         `json:",omitempty"` // ID of the Claim, for Settle and Lapse
	Result  webhook.Result `json:",omitempty"` // outcome to record, for Settle
	Call    int64
	Return  int64

	takeOver time.Duration // longest time between two heartbeats of a process; 0 if no other process ever gets its events
	over     int64         // end of the handler or its context, for Claim; 0 if the process was killed before
}

// inboxResult is the result of a call.
type inboxResult struct {
	ID       string
	Err      string `json:",omitempty"` // errUnknown, or errClaimLost for Settle
	N        int    `json:",omitempty"` // for Replay and Discard; 1 for an Accept of a duplicate
	State    string `json:",omitempty"` // for List, empty if it returns no event
	Returned bool   `json:",omitempty"` // for Settle: the handler failed after the end of its context, which is not an attempt
	Return   int64
}

// errClaimLost means that Settle has not recorded an outcome, because the event no longer belongs
// to the claim.
const errClaimLost = "claim lost"

// eventState is the state of an event in an inbox. The zero value is an unknown event.
type eventState struct {
	phase    phase
	attempts int
	claim    string // claim that owns the event
	process  string // process of the claim
	begun    int64  // start of its handler
	over     int64  // end of its handler or of the handler's context
}

type phase string

const (
	phaseNone    phase = ""
	phaseWaiting phase = "waiting"
	phaseRunning phase = "running"
	phaseDead    phase = "dead"
	phaseDone    phase = "done"
)

// inboxStep is a sequential inbox. It reports whether a call in state s could have result r, and
// returns the next state.
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
			// The outcome of a lost claim may still be recorded: a try lost its response, and
			// then Replay or Discard changed the event.
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

// late is the longest delay until a process notices that its handlers must end.
const late = 100 * time.Millisecond

// claimed returns the state after a claim. A claim without a started handler also counts as an
// attempt. Its process was killed, did not get the response, or was considered dead and lost the
// fetched events before its next heartbeat.
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

// overtaken reports whether a claim takes an event from a running handler too early: its context
// has not ended, and it started less than a third of takeOver ago. A process that starts a handler
// has sent a heartbeat in the preceding two thirds of takeOver.
func (s eventState) overtaken(c inboxCall) bool {
	return s.phase == phaseRunning && s.begun <= c.Return && c.Return+slack < s.begun+int64(c.takeOver/3) &&
		(s.over == 0 || c.Return+int64(late) < s.over)
}

// settled returns the state after recording the outcome of an attempt.
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

// listed returns the state in a list. Waiting and running events look the same, because a claim
// can end without a recorded operation.
func (s eventState) listed() string {
	switch s.phase {
	case phaseWaiting, phaseRunning:
		return string(phaseWaiting)
	case phaseDead:
		return string(phaseDead)
	}
	return ""
}

// inboxModel is the model of an inbox with one event.
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
		case c.Op == opClaim: // recorded after it was made
			c.Call, c.Return = 0, c.Call
		case !returned || r.Err == errUnknown:
			r.Err, c.Return = errUnknown, math.MaxInt64
		}
		all[c.Event] = append(all[c.Event], porcupine.Operation{Input: c, Call: c.Call, Output: r, Return: c.Return})
	}
	return all
}
