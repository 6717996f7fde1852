package apikit

import "github.com/dispensary-go/dispensary/api"

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
