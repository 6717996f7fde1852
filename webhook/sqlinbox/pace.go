package sqlinbox

import "time"

// pace shares the writer between those who bring events and the handlers. The
// former are many and wait for one transaction each; a handler waits for one
// transaction to have its outcome noted and its next event given to it, and has
// nothing to do meanwhile. So what a flood of accepts adds to a transaction adds
// to the time that every event takes, unless handlers take longer than that.
//
// The writer alone uses it.
type pace struct {
	handling time.Duration // from the end of a transaction until what it gave out comes back: a moving average
	expected int           // events that may come back any moment
}

const (
	// acceptsPerOutcome is how many accepts a transaction takes in for each event
	// whose outcome it notes, or which is about to come back.
	acceptsPerOutcome = 1

	// acceptWait is how long an accept waits at most for the benefit of handlers.
	acceptWait = 30 * time.Millisecond

	// quick is how long handlers take at most that are worth waiting for.
	quick = 5 * time.Millisecond
)

// gaveOut notes that n events are with handlers now.
func (p *pace) gaveOut(n int) { p.expected += n }

// cameBack notes that a handler is done after so long a time.
func (p *pace) cameBack(took time.Duration) {
	p.handling += (took - p.handling) / 8
	p.expected = max(0, p.expected-1)
}

// limit returns how many accepts a transaction takes in at most that notes so many
// outcomes: as many as there are where no handler waits, or the first of them has
// waited for long.
func (p *pace) limit(outcomes int, waited time.Duration) int {
	if p.handling < quick {
		outcomes += p.expected
	}
	if outcomes == 0 || waited > acceptWait {
		return maxBatch
	}
	return acceptsPerOutcome * outcomes
}

// patience returns how long the next transaction waits for handlers that come
// back any moment: a handler that has just missed one would wait for two.
func (p *pace) patience() time.Duration {
	if p.expected == 0 || p.handling >= quick {
		return 0
	}
	return max(time.Millisecond, 4*p.handling)
}
