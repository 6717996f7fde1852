// Package apikit creates and reads values of package api in ways that only this module may: errors of
// calls, errors that describe themselves, and priorities.
package apikit

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// NewError returns e with its cause, the response body and the messages in the body. cause, body
// and messages may be nil.
func NewError(e api.Error, cause error, body []byte, messages []hidden.Message) *api.Error {
	hidden.Attach(&e, hidden.Detail{Cause: cause, Body: body, Messages: messages})
	return &e
}

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

type sentinel struct {
	text    string
	problem api.Problem
}

// NewSentinel returns an error for errors.Is with a text and with a description for users, problem, which
// api.ProblemOf returns. Each call returns a distinct error, as errors.New does.
func NewSentinel(text string, problem api.Problem) error { return &sentinel{text, problem} }

// Error returns the text.
func (e *sentinel) Error() string { return e.text }

// Problem returns a copy of the problem.
func (e *sentinel) Problem() *api.Problem {
	p := e.problem
	return &p
}
