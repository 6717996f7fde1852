// Package priority reads the request priority from a context. [api.ContextWithPriority] stores
// it there.
package priority

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/priority/key"
)

// Count is the number of priorities.
const Count = int(api.PriorityCatalog) + 1

// Of returns the priority for requests with ctx. The default is [api.PriorityInteractive].
func Of(ctx context.Context) api.Priority {
	p, _ := ctx.Value(key.Priority{}).(api.Priority)
	return p
}

// WithDefault returns a context with the priority of ctx, or with priority p if ctx has none.
func WithDefault(ctx context.Context, p api.Priority) context.Context {
	if _, ok := ctx.Value(key.Priority{}).(api.Priority); ok {
		return ctx
	}
	return api.ContextWithPriority(ctx, p)
}
