// Package sentinel creates errors for errors.Is that describe themselves to users.
package sentinel

import "github.com/dispensary-go/dispensary/api"

type sentinel struct {
	text    string
	problem api.Problem
}

// New returns an error with a text and with a description for users, problem, which
// api.ProblemOf returns. Each call returns a distinct error, as errors.New does.
func New(text string, problem api.Problem) error { return &sentinel{text, problem} }

// Error returns the text.
func (e *sentinel) Error() string { return e.text }

// Problem returns a copy of the problem.
func (e *sentinel) Problem() *api.Problem {
	p := e.problem
	return &p
}
