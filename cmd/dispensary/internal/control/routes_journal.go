package control

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// verdict is what a check found.
type verdict struct {
	Passed   bool
	Findings []string
}

// atMostCheck says how many reads one by one are few.
type atMostCheck struct{ AtMost int }

// leakCheck is what an application wrote, and may have written too much.
type leakCheck struct{ Texts []string }

func journalOperations() []Operation {
	requests := list("journal.list", "/journal", "requests", "The requests that the platform remembers, the oldest first.", func(c *call) []model.Request { return c.fake.Journal.Requests() },
		"operation", "status", "user_id")
	return []Operation{
		requests,
		do("journal.reset", "DELETE", "/journal", "Forgets all requests, so that a test can look at its next step alone.",
			func(c *call) (nothing, error) { c.fake.Journal.Reset(); return nothing{}, nil }),
		do("journal.check_no_unexpected", "POST", "/journal/checks/no_unexpected", "Finds requests for what the API does not have: operations, query parameters, body fields.",
			func(c *call) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckNoUnexpected(t) }), nil
			}),
		do("journal.check_backoff_honored", "POST", "/journal/checks/backoff_honored", "Fails if a caller repeated a request before the time in a Retry-After, or if no response carried one. Requests in flight do not count.",
			func(c *call) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckBackoffHonored(t) }), nil
			}),
		act("journal.check_no_n_plus_one", "POST", "/journal/checks/no_n_plus_one", "Fails if more objects than so many were read one by one that a list had named before.",
			func(c *call, in atMostCheck) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckNoNPlusOne(t, in.AtMost) }), nil
			}),
		act("journal.check_no_leak", "POST", "/journal/checks/no_leak", "Fails if a text, such as a log, holds a secret or what would name a patient.",
			func(c *call, in leakCheck) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.CheckNoLeak(t, in.Texts...) }), nil
			}),
	}
}

// judge runs a check of Go tests where there is no test.
func judge(ctx context.Context, check func(t testing.TB)) verdict {
	notes := &notebook{ctx: ctx}
	check(notes)
	return verdict{Passed: len(notes.findings) == 0, Findings: notes.findings}
}

// notebook writes down what a test would report. Checks call nothing else of it.
type notebook struct {
	testing.TB
	ctx      context.Context
	findings []string
}

// Context implements [testing.TB].
func (n *notebook) Context() context.Context { return n.ctx }

// Helper implements [testing.TB].
func (n *notebook) Helper() {}

// Error implements [testing.TB].
func (n *notebook) Error(args ...any) { n.note(fmt.Sprint(args...)) }

// Errorf implements [testing.TB].
func (n *notebook) Errorf(format string, args ...any) { n.note(fmt.Sprintf(format, args...)) }

// Logf implements [testing.TB]; what a check notes beside its findings stays here.
func (n *notebook) Logf(string, ...any) {}

func (n *notebook) note(text string) {
	n.findings = append(n.findings, strings.TrimPrefix(text, "dispensarytest: "))
}

// plain is an error without the package that says it.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "dispensarytest: ") }
