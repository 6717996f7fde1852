package apikit

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// Priorities is the number of priorities.
const Priorities = int(api.PriorityCatalog) + 1

// PriorityOf returns the priority for requests with ctx, which [api.ContextWithPriority] stored
// there. The default is [api.PriorityInteractive].
func PriorityOf(ctx context.Context) api.Priority {
	p, _ := ctx.Value(hidden.PriorityKey{}).(api.Priority)
	return p
}

// WithPriority returns a context with the priority of ctx, or with priority p if ctx has none.
func WithPriority(ctx context.Context, p api.Priority) context.Context {
	if _, ok := ctx.Value(hidden.PriorityKey{}).(api.Priority); ok {
		return ctx
	}
	return api.ContextWithPriority(ctx, p)
}
