package api

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/internal/priority/key"
)

// Priority says how urgent a request is where requests wait for a rate limit. Those of a
// higher priority go first, and find a part of the limit that those of a lower one leave
// to them. What this library does by itself, it does at the priority of that work, unless
// the context that it was given has one: see [ContextWithPriority].
type Priority uint8

// The priorities, the highest first. The zero value is that of a request which has none.
const (
	PriorityInteractive Priority = iota // a person waits for the answer
	PriorityRefresh                     // tokens are refreshed before their end
	PriorityEvent                       // an event is handled, or what it is about is read
	PriorityReconcile                   // lists are searched for what was missed
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

// ContextWithPriority returns a context whose requests have the priority. One that is lower
// than all counts as [PriorityCatalog].
func ContextWithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, key.Priority{}, min(p, PriorityCatalog))
}

// PausingLimiter is a [Limiter] that shares the pause after a 429 with Retry-After. All
// clients with the same PausingLimiter wait together.
type PausingLimiter interface {
	Limiter

	// Pause records that the platform accepts no request for d, from now on. A shorter
	// pause does not end a longer one.
	Pause(d time.Duration)

	// Paused returns the rest of the pause, 0 if there is none. A client holds calls back
	// until it is over, see [RetryPolicy].MaxRetryAfter.
	Paused() time.Duration
}
