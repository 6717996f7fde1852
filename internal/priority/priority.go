// Package priority reads the priority of the requests of a context, which
// [api.ContextWithPriority] sets.
package priority

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/priority/key"
)

// Count is the number of priorities.
const Count = int(api.PriorityCatalog) + 1

// Of returns the priority of the requests of a context: [api.PriorityInteractive] if it has
// none.
func Of(ctx context.Context) api.Priority {
	p, _ := ctx.Value(key.Priority{}).(api.Priority)
	return p
}

// WithDefault returns a context whose requests have the priority of ctx, or p if ctx has
// none.
func WithDefault(ctx context.Context, p api.Priority) context.Context {
	if _, ok := ctx.Value(key.Priority{}).(api.Priority); ok {
		return ctx
	}
	return api.ContextWithPriority(ctx, p)
}
