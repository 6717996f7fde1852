package api

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/internal/priority/key"
)

// Priority is the urgency of a request that waits for a rate limit. Requests of a higher
// priority go first, and can use a share of the limit that is reserved from lower priorities.
// The library gives its own background requests the priority of their work, unless their
// context already has one: see [ContextWithPriority].
type Priority uint8

// The priorities, highest first. Interactive is the zero value and the default.
const (
	PriorityInteractive Priority = iota // a user waits for the response
	PriorityRefresh                     // a token is refreshed before it expires
	PriorityEvent                       // an event is handled, or its object is read
	PriorityReconcile                   // event lists are searched for missed events
	PriorityCatalog                     // the catalog is copied
)

// String returns the name of the priority: "interactive", "refresh", "event", "reconcile" or
// "catalog".
func (p Priority) String() string {
	switch p {
	case PriorityInteractive:
		return "interactive"
	case PriorityRefresh:
		return "refresh"
	case PriorityEvent:
		return "event"
	case PriorityReconcile:
		return "reconcile"
	}
	return "catalog"
}

// ContextWithPriority returns a context that gives its requests priority p. A value below the
// lowest priority counts as [PriorityCatalog].
func ContextWithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, key.Priority{}, min(p, PriorityCatalog))
}

// PausingLimiter is a [Limiter] that shares the pause after a 429 with Retry-After. All
// clients with the same PausingLimiter wait together.
type PausingLimiter interface {
	Limiter

	// Pause records that the platform accepts no request for the duration d, starting now. A
	// shorter pause does not end a longer one.
	Pause(d time.Duration)

	// Paused returns the rest of the pause, or 0 if there is none. A client delays calls until
	// it is over, see [RetryPolicy].MaxRetryAfter.
	Paused() time.Duration
}
