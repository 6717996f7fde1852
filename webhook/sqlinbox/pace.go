package sqlinbox

import (
	"math"
	"time"
)

// pace shares the writer between those who bring events and the handlers. The
// former are many and wait for one transaction each; a handler waits for one
// transaction to have its outcome recorded and its next event given to it, and has
// nothing to do meanwhile. So what a flood of accepts adds to a transaction adds
// to the time that every event takes, unless handlers take longer than that.
//
// Only the writer's goroutine uses it.
type pace struct {
	handling time.Duration // from the end of a transaction until the events claimed in it come back: a moving average
	expected int           // events that may come back soon
	until    time.Time     // the batch waits for them; zero if it does not wait yet
}

const (
	// acceptsPerOutcome is how many accepts a transaction takes in for each event
	// whose outcome it records, or which is about to come back.
	acceptsPerOutcome = 1

	// acceptWait is how long an accept waits at most for the benefit of handlers.
	acceptWait = 30 * time.Millisecond

	// quick is how long handlers take at most that are worth waiting for.
	quick = 5 * time.Millisecond
)

// claimed records that a transaction is over, and that n events which were claimed
// in it are with handlers now.
func (p *pace) claimed(n int) { p.expected, p.until = p.expected+n, time.Time{} }

// cameBack records that a handler is done after so long a time.
func (p *pace) cameBack(took time.Duration) {
	p.handling += (took - p.handling) / 8
	p.expected = max(0, p.expected-1)
}

// limit returns how many accepts a transaction takes in at most that records so many
// outcomes: as many as there are where no handler waits, or the first of them has
// waited for long.
func (p *pace) limit(outcomes int, waited time.Duration) int {
	if p.handling < quick {
		outcomes += p.expected
	}
	if outcomes == 0 || waited > acceptWait {
		return math.MaxInt
	}
	return acceptsPerOutcome * outcomes
}

// patience returns how long the next transaction still waits for handlers that come
// back soon: a handler that has just missed one would wait for two. Those that take
// longer than others are not waited for again.
func (p *pace) patience(now time.Time) time.Duration {
	if p.expected == 0 || p.handling >= quick {
		return 0
	}
	if p.until.IsZero() {
		p.until = now.Add(max(time.Millisecond, 4*p.handling))
	}
	left := p.until.Sub(now)
	if left <= 0 {
		p.expected = 0
		return 0
	}
	return left
}
