//go:build unix

package histories_test

import (
	"cmp"
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// The calls of a [tokenstore.Store]. A ClaimDue counts as one call for each returned user.
const (
	opLoad          = "Load"
	opSave          = "Save"
	opDeleteVersion = "DeleteVersion"
	opLease         = "Lease"
	opCommit        = "Commit"
	opFail          = "Fail"
	opRelease       = "Release"
	opClaimDue      = "ClaimDue"
)

// tokenCall is a call with its arguments and times. Times are nanoseconds of the clock shared by
// all processes.
type tokenCall struct {
	ID         string
	Op, User   string
	Version    int64             `json:",omitempty"`
	Owner      string            `json:",omitempty"`
	TTL        int64             `json:",omitempty"`
	Token      string            `json:",omitempty"` // unique access token
	Reason     tokenstore.Reason `json:",omitempty"`
	Call       int64
	Return     int64 // math.MaxInt64 if the outcome is unknown
	newVersion int64 // new version of the record, from other calls, if the outcome is unknown
}

// tokenResult is the result of a call.
type tokenResult struct {
	ID      string
	Err     string `json:",omitempty"` // one of the errors below
	Version int64  `json:",omitempty"`
	Token   string `json:",omitempty"`
	State   tokenstore.State
	Reason  tokenstore.Reason `json:",omitempty"`
	Users   []string          `json:",omitempty"` // for ClaimDue, each with its result in Results
	Results []tokenResult     `json:",omitempty"`
	Return  int64
}

// The errors of a call. After any other error, the outcome is unknown.
const (
	errNoRecord = "no record"
	errConflict = "conflict"
	errLeased   = "leased"
	errUnknown  = "unknown"
)

// recordState is the record of a user in a store. The zero value means that there was never one.
type recordState struct {
	exists  bool
	version int64
	token   string
	state   tokenstore.State
	reason  tokenstore.Reason

	owner            string // owner of the last lease, or "" if it was released
	earliest, latest int64  // bounds of the lease's end

	top      int64 // greatest version so far
	topSince int64 // return time of the call that assigned it
}

// slack is the longest difference of the clocks of store and processes during a lease, in
// nanoseconds.
const slack = 1_000_000

// mayBeFree reports whether the last lease may have ended before the end of a call. mayBeHeld
// reports whether it may have been active at the start of the call.
func (s recordState) mayBeFree(c tokenCall) bool {
	return s.owner == "" || later(c.Return, slack) >= s.earliest
}

func (s recordState) mayBeHeld(c tokenCall) bool { return s.owner != "" && c.Call-slack <= s.latest }

// later adds d to a time. The time math.MaxInt64 means never.
func later(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// is reports whether a result contains the record in this state.
func (s recordState) is(r tokenResult) bool {
	return s.exists && s.version == r.Version && s.token == r.Token && s.state == r.State && s.reason == r.Reason
}

func (s recordState) isAt(c tokenCall) bool { return s.exists && s.version == c.Version }

// leased returns the state after the call has taken the lease.
func (s recordState) leased(c tokenCall) recordState {
	s.owner, s.earliest, s.latest = c.Owner, c.Call+c.TTL, later(c.Return, c.TTL)
	return s
}

// written returns the state after the call has written the record with a version. It returns false
// if the call cannot assign this version. The version must be greater than the version of the
// record, and than all versions assigned before the call, even of a deleted record.
func (s recordState) written(c tokenCall, version int64) (bool, recordState) {
	if version > 0 && (s.exists && version <= s.version || s.topSince < c.Call && version <= s.top) {
		return false, s
	}
	next := recordState{exists: true, version: version, token: c.Token, state: tokenstore.StateActive, top: s.top, topSince: s.topSince}
	if version > s.top {
		next.top, next.topSince = version, c.Return
	}
	if c.Op == opFail {
		next.state, next.reason = tokenstore.StateReauthorize, c.Reason
	}
	return true, next
}

// tokenStep is a sequential store. It reports whether a call in state s could have result r, and
// returns the next state.
func tokenStep(s recordState, c tokenCall, r tokenResult) (bool, recordState) {
	gone := recordState{top: s.top, topSince: s.topSince}
	switch {
	case r.Err == errUnknown:
		return true, s.tried(c)
	case r.Err == errNoRecord:
		return !s.exists, s
	}
	switch c.Op {
	case opLoad:
		return s.is(r), s
	case opDeleteVersion:
		if r.Err == errConflict {
			return s.exists && !s.isAt(c), s
		}
		return !s.exists || s.isAt(c), gone
	case opRelease:
		return true, s.tried(c)
	case opLease:
		switch r.Err {
		case errConflict:
			return s.exists && !s.isAt(c), s
		case errLeased:
			return s.isAt(c) && s.owner != c.Owner && s.mayBeHeld(c), s
		}
		return s.is(r) && s.isAt(c) && (s.owner == c.Owner || s.mayBeFree(c)), s.leased(c)
	case opClaimDue:
		return s.is(r) && s.state == tokenstore.StateActive && s.mayBeFree(c), s.leased(c)
	case opSave:
		possible, next := s.written(c, r.Version)
		return possible && next.is(r), next
	}
	mine := s.isAt(c) && s.owner == c.Owner
	if r.Err == errConflict {
		return s.exists && !mine, s
	}
	possible, next := s.written(c, r.Version)
	return mine && possible && next.is(r), next
}

// tried returns the state after a call with an unknown outcome. The call has its effect if the
// state permits it. A call that never ran is ordered last.
func (s recordState) tried(c tokenCall) recordState {
	next := s
	switch c.Op {
	case opDeleteVersion:
		if s.isAt(c) {
			next = recordState{top: s.top, topSince: s.topSince}
		}
	case opRelease:
		if s.isAt(c) && s.owner == c.Owner {
			next.owner, next.earliest, next.latest = "", 0, 0
		}
	case opLease:
		if s.isAt(c) && (s.owner == c.Owner || s.mayBeFree(c)) {
			next = s.leased(c)
		}
	case opClaimDue:
		if s.exists && s.state == tokenstore.StateActive && s.mayBeFree(c) {
			next = s.leased(c)
		}
	case opSave:
		_, next = s.written(c, c.newVersion)
	case opCommit, opFail:
		if s.isAt(c) && s.owner == c.Owner {
			_, next = s.written(c, c.newVersion)
		}
	}
	return next
}

// tokenModel is the model of a store with one user.
var tokenModel = porcupine.Model{
	Init: func() any { return recordState{} },
	Step: func(state, input, output any) (bool, any) {
		return tokenStep(state.(recordState), input.(tokenCall), output.(tokenResult))
	},
}

// histories returns the history of each user, with calls and results.
func histories(calls []tokenCall, results map[string]tokenResult) map[string][]porcupine.Operation {
	seen := map[string]int64{} // version by token
	for _, r := range results {
		seen[r.Token] = r.Version
		for _, one := range r.Results {
			seen[one.Token] = one.Version
		}
	}
	all := map[string][]porcupine.Operation{}
	add := func(c tokenCall, r tokenResult) {
		all[c.User] = append(all[c.User], porcupine.Operation{Input: c, Call: c.Call, Output: r, Return: c.Return})
	}
	users := map[string]bool{}
	for _, c := range calls {
		if c.Op != opClaimDue {
			users[c.User] = true
		}
	}
	for n, c := range calls {
		r, returned := results[c.ID]
		c.Return = r.Return
		if !returned || r.Err == errUnknown {
			r.Err, c.Return = errUnknown, math.MaxInt64
			c.newVersion = cmp.Or(seen[c.Token], -int64(n+1)) // negative if no call has seen the version
		}
		switch {
		case c.Op != opClaimDue:
			add(c, r)
		case r.Err == errUnknown:
			for user := range users {
				c.User = user
				add(c, r)
			}
		default:
			for i, user := range r.Users {
				c.User = user
				add(c, r.Results[i])
			}
		}
	}
	return all
}
