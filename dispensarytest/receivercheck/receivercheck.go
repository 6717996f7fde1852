// Package receivercheck is the acceptance test of an endpoint for webhooks, written in
// whichever way: by hand, with package webhook, or in another language behind a URL.
//
//	func TestWebhooks(t *testing.T) {
//		receivercheck.Run(t, receivercheck.Target{
//			Handler: router, Path: "/dispensary/webhooks",
//			Secret: "…", Challenge: "…",
//			Hooks: receivercheck.Hooks{Handled: orders.Count},
//		})
//	}
//
// It plays the platform on good days and bad ones, and a caller who is not the
// platform: wrong, stale, replayed and rotated signatures, large, slow and malformed
// bodies, duplicates, disorder, unknown types, probes, and storage that fails. A case
// that fails says what was seen, what that does in production, and how to fix it.
//
// The events are of all types, of an invented clinic and under ids that no other run
// has, so that a receiver with a database can be checked twice. Cases run one after
// the other, as they share what the hooks do. Those that wait for a failure take long
// only if there is one. Where the first event is refused, or is not answered in time,
// no others are sent: one cause is reported once.
//
// It cannot see everything: not whether signatures are compared in constant time, nor
// whether an event that was acknowledged outlives a crash.
//
// API section: "Webhooks", "Signature header". Time-out, probes, and the forms in
// which data comes, are assumptions.
package receivercheck

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Verdict is the result of one case.
type Verdict struct {
	// Case is the name, such as "Signature/Stale".
	Case string

	// Skipped is why the case was not run; empty if it was.
	Skipped string

	// Findings are the mistakes that were seen, and what shows each.
	Findings []string

	// Consequence is what the mistake does in production, and Fix what to do
	// about it; both are set whether or not it was made.
	Consequence, Fix string
}

// Failed reports that a mistake was seen.
func (v Verdict) Failed() bool { return len(v.Findings) > 0 }

// String returns the verdict as the failure of a test shows it.
func (v Verdict) String() string {
	switch {
	case v.Skipped != "":
		return v.Case + ": skipped: " + v.Skipped
	case !v.Failed():
		return v.Case + ": passed"
	}
	return v.Case + ": failed\n  " + strings.Join(v.Findings, "\n  ") +
		"\nIn production: " + v.Consequence + "\nFix: " + v.Fix
}

// Run checks an endpoint. Every case is a subtest.
//
// Cases that were skipped are named in one line on standard error, with the fields of
// [Target] that they need. Without -v, go test shows it where it is run in the folder
// of the package; of packages that are named, as in go test ./..., it shows nothing
// unless they fail: there, use [Examine].
func Run(t *testing.T, target Target) {
	t.Helper()
	c, err := newChecker(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var verdicts []Verdict
	c.each(func(name string, run func() Verdict) {
		t.Run(name, func(t *testing.T) {
			v := run()
			verdicts = append(verdicts, v)
			switch {
			case v.Skipped != "":
				t.Skip(v.Skipped)
			case v.Failed():
				t.Error(v)
			}
		})
	})
	if summary := summarizeSkipped(t.Name(), verdicts); summary != "" {
		fmt.Fprintln(os.Stderr, summary) // what a test logs is not shown where it passes
	}
}

// Examine is [Run] for programs that are not tests: it returns every verdict, in order. The
// command "dispensary check" prints them for an endpoint in any language.
// It fails with an *api.ArgumentError if the target is not described well enough.
func Examine(ctx context.Context, target Target) ([]Verdict, error) {
	c, err := newChecker(ctx, target)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var verdicts []Verdict
	c.each(func(_ string, run func() Verdict) { verdicts = append(verdicts, run()) })
	return verdicts, nil
}

// each passes every selected case to report, which runs it. It runs the cases that a selected
// case needs without a report.
func (c *checker) each(report func(name string, run func() Verdict)) {
	all := slices.ContainsFunc(alwaysCases, c.selected)
	for i, tc := range cases() {
		run := func() Verdict { return c.run(tc) }
		switch {
		case i == 0 || c.selected(tc):
			report(tc.name, run)
		case all:
			run()
		}
	}
}

// cases are in the order in which they run: those of Always review the exchanges of all
// others.
func cases() []testCase {
	return slices.Concat(signatureCases, timestampCases, challengeCases, eventCases, deliveryCases, bodyCases, alwaysCases)
}

// summarizeSkipped names in one line the cases that were skipped, and what each needs;
// "" if all were run.
func summarizeSkipped(test string, verdicts []Verdict) string {
	const named = 10 // where more have one reason, it is the receiver that was left out
	skipped := 0
	var reasons []string
	cases := make(map[string][]string)
	for _, v := range verdicts {
		if v.Skipped == "" {
			continue
		}
		skipped++
		if cases[v.Skipped] == nil {
			reasons = append(reasons, v.Skipped)
		}
		cases[v.Skipped] = append(cases[v.Skipped], v.Case)
	}
	if skipped == 0 {
		return ""
	}
	for i, reason := range reasons {
		what := strings.Join(cases[reason], ", ")
		if n := len(cases[reason]); n > named {
			what = fmt.Sprint(n, " cases")
		}
		reasons[i] = fmt.Sprintf("%s (%s)", what, reason)
	}
	return fmt.Sprintf("receivercheck: %s did not run %d of %d cases: %s", test, skipped, len(verdicts), strings.Join(reasons, "; "))
}
