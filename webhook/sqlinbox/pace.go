package sqlinbox

import (
	"math"
	"time"
)

// pace shares the writer between accepts and handlers. A handler is idle while a transaction
// records its outcome and claims its next event, so accepts in that transaction slow down
// every event, unless handlers are slower. Without pace, handlers reach about a quarter of
// their speed during a flood of accepts. Only the writer's goroutine uses it.
type pace struct {
	handling time.Duration // moving average of the time from a claim to its outcome
	expected int           // outcomes expected soon
	until    time.Time     // end of the wait for them; zero means no wait
}

const (
	// acceptsPerOutcome is the number of accepts in a transaction per recorded or expected
	// outcome.
	acceptsPerOutcome = 1

	// acceptWait is the longest wait of an accept for the benefit of handlers.
	acceptWait = 30 * time.Millisecond

	// quick is the longest handler duration worth waiting for.
	quick = 5 * time.Millisecond
)

// claimed records a transaction with n new claims.
func (p *pace) claimed(n int) { p.expected, p.until = p.expected+n, time.Time{} }

// cameBack records the outcome of a claim.
func (p *pace) cameBack(took time.Duration) {
	p.handling += (took - p.handling) / 8
	p.expected = max(0, p.expected-1)
}

// limit returns the largest number of accepts in a transaction with this number of outcomes.
// There is no limit if no handler waits, or if the first accept has waited for acceptWait.
func (p *pace) limit(outcomes int, waited time.Duration) int {
	if p.handling < quick {
		outcomes += p.expected
	}
	if outcomes == 0 || waited > acceptWait {
		return math.MaxInt
	}
	return acceptsPerOutcome * outcomes
}

// patience returns how long the next transaction waits for expected outcomes, because a
// handler that misses a transaction waits for two. If they are late, it stops expecting them
// after one wait.
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
