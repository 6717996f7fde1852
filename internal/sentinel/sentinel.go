// Package sentinel makes errors to compare with errors.Is that describe themselves to users.
package sentinel

import "github.com/dispensary-go/dispensary/api"

type sentinel struct {
	text    string
	problem api.Problem
}

// New returns an error with a text, which api.ProblemOf describes as problem. Every error is
// different, as with errors.New.
func New(text string, problem api.Problem) error { return &sentinel{text, problem} }

// Error returns the text.
func (e *sentinel) Error() string { return e.text }

// Problem returns a copy of the problem.
func (e *sentinel) Problem() *api.Problem {
	p := e.problem
	return &p
}
