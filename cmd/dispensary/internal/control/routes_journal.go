package control

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// verdict is the result of a check.
type verdict struct {
	Passed   bool
	Findings []string
}

// atMostCheck is the body of the check for N+1 reads. AtMost is the number of allowed single
// reads.
type atMostCheck struct{ AtMost int }

// leakCheck is the body of the check for leaks. Texts are outputs of an application, such as
// logs.
type leakCheck struct{ Texts []string }

func journalOperations() []Operation {
	requests := list("journal.list", "/journal", "requests", "Lists the stored requests, oldest first.", func(c *call) []model.Request { return c.fake.Journal.Requests() },
		"operation", "status", "user_id")
	return []Operation{
		requests,
		do("journal.reset", "DELETE", "/journal", "Removes all stored requests, so that a test can check its next step alone.",
			func(c *call) (nothing, error) { c.fake.Journal.Reset(); return nothing{}, nil }),
		do("journal.check_no_unexpected", "POST", "/journal/checks/no_unexpected", "Fails if a request used an unknown operation, query parameter or body field.",
			func(c *call) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckNoUnexpected(t) }), nil
			}),
		do("journal.check_backoff_honored", "POST", "/journal/checks/backoff_honored", "Fails if a caller repeated a request before the time in a Retry-After, or if no response carried one. Requests in flight do not count.",
			func(c *call) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckBackoffHonored(t) }), nil
			}),
		act("journal.check_no_n_plus_one", "POST", "/journal/checks/no_n_plus_one", "Fails if more than at_most objects of a list were then read one by one.",
			func(c *call, in atMostCheck) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckNoNPlusOne(t, in.AtMost) }), nil
			}),
		act("journal.check_no_leak", "POST", "/journal/checks/no_leak", "Fails if a text, such as a log, contains a secret or a value that identifies a patient.",
			func(c *call, in leakCheck) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.CheckNoLeak(t, in.Texts...) }), nil
			}),
	}
}

// judge runs a check of Go tests outside a test.
func judge(ctx context.Context, check func(t testing.TB)) verdict {
	notes := &notebook{ctx: ctx}
	check(notes)
	return verdict{Passed: len(notes.findings) == 0, Findings: notes.findings}
}

// notebook records the failures of a check. It implements only the methods that checks call.
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

// Logf implements [testing.TB]. It drops notes, which are not findings.
func (n *notebook) Logf(string, ...any) {}

func (n *notebook) note(text string) {
	n.findings = append(n.findings, strings.TrimPrefix(text, "dispensarytest: "))
}

// plain returns the text of err without its package prefix.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "dispensarytest: ") }
