package ratelimit

import (
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// record is what a process leaves for the others.
type record struct {
	// Held is how many requests the process may send in any period, at most.
	Held int `json:"held"`

	// Used is how many it has sent in the last period, by their age in equal parts of it,
	// the youngest first.
	Used []int `json:"used,omitempty"`

	// Wants is how many it would send in a period, by priority.
	Wants [api.Priorities]int `json:"wants"`

	// Reserve is how many of those that it may send are left to people.
	Reserve int `json:"reserve"`

	// Left says that the process sends no more: what counts is Used.
	Left bool `json:"left,omitempty"`

	// Pause is until when the platform wants no requests, by the clock of the store, as
	// far as the process knows that clock.
	Pause time.Time `json:"pause,omitzero"`

	wanted int // of Held, what the process would have for its quota
	starts int // the sum of Used
	people int // interactive requests that wait
}

// peer is another process, as this one knows it.
type peer struct {
	record
	at    time.Time // when it left the record, by the store's clock
	heard time.Time // the same, by the clock of this process
}

// left is how many requests of a process that has left still count.
func (r record) left(age, per time.Duration) (n int) {
	for i, used := range r.Used {
		if age+time.Duration(i)*per/time.Duration(max(1, len(r.Used))) < per {
			n += used
		}
	}
	return n
}

// targets returns what each of the members should hold of a limit of total requests. Each has
// its reserve, and what it wants for people. Of the rest a tenth is for all other
// priorities alike, then it is their turn, the highest first. What nothing is wanted of is
// shared in equal parts.
func targets(total int, members []record) []int {
	held := make([]int, len(members))
	wants := make([][api.Priorities]int, len(members))
	rest := max(0, total)
	for i, m := range members {
		held[i] = min(m.Reserve, rest/(len(members)-i))
		rest -= held[i]
		wants[i] = m.Wants
	}
	handOut := func(p, most int) { rest -= fill(held, wants, p, min(most, rest)) }
	handOut(0, rest)
	few := rest / guaranteed / (api.Priorities - 1)
	for p := range api.Priorities {
		handOut(p, few)
	}
	for p := range api.Priorities {
		handOut(p, rest)
	}
	for i := range members {
		share := rest / (len(members) - i)
		held[i] += share
		rest -= share
	}
	return held
}

// fill hands out most to those who want it at a priority, so that none has more than another
// one who wants more. It returns how much it has handed out.
func fill(held []int, wants [][api.Priorities]int, p, most int) (given int) {
	for {
		var open []int
		for i := range wants {
			if wants[i][p] > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 || most-given < len(open) {
			return given
		}
		share := (most - given) / len(open)
		for _, i := range open {
			more := min(share, wants[i][p])
			wants[i][p] -= more
			held[i] += more
			given += more
		}
	}
}
