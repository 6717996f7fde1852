// Package receivercheck is the acceptance test of a webhook endpoint. The endpoint may use
// package webhook, be a handler of your own, or run in another language behind a URL.
//
//	func TestWebhooks(t *testing.T) {
//		receivercheck.Run(t, receivercheck.Target{
//			Handler: router, Path: "/dispensary/webhooks",
//			Secret: "…", Challenge: "…",
//			Hooks: receivercheck.Hooks{Handled: orders.Count},
//		})
//	}
//
// # Cases
//
// The test sends requests like the platform, in good and in bad conditions, and like an
// attacker:
//
//   - wrong, stale, replayed and rotated signatures
//   - large, slow and malformed bodies
//   - duplicates, events out of order, unknown types and probes
//   - events while your storage fails
//
// [Run] runs each case as a subtest, and [Examine] returns a [Verdict] for each case. A failed
// case reports the observed mistakes, their consequence in production, and a fix.
//
// The events have all types and belong to an invented clinic. Their IDs differ in each run, so
// you can check a receiver with a database repeatedly. Cases run one after another, because
// they share the hooks. A case that waits for a mistake is slow only if the receiver makes it.
//
// If the receiver rejects the first event or does not respond in time, the test skips the other
// cases. It therefore reports a common cause once.
//
// # Limits
//
// The test cannot detect whether the endpoint compares signatures in constant time, or whether
// an acknowledged event survives a crash.
//
// API sections: "Webhooks", "Signature header". Assumptions: the timeout, the probes and the
// forms of event data.
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
	// Case is the name of the case, such as "Signature/Stale".
	Case string

	// Skipped is the reason why the case was skipped, or empty if it ran.
	Skipped string

	// Needs is the field of [Target] that a skipped case needs, such as "Hooks.Handled". It is
	// empty if the case ran, or was skipped for another reason.
	Needs string

	// Findings are the observed mistakes, each with its evidence. Empty means that the case
	// passed or was skipped.
	Findings []string

	// Consequence is the effect of a mistake in production, and Fix is its correction. Both
	// are always set.
	Consequence, Fix string
}

// Failed reports whether the case found a mistake.
func (v Verdict) Failed() bool { return len(v.Findings) > 0 }

// String returns the verdict in the format of a test failure.
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

// Run checks an endpoint. Each case is a subtest. The test fails immediately if target is
// invalid.
//
// Run writes one line to standard error with the skipped cases and the fields of [Target] that
// they need. Without -v, go test shows this line only if you run it in the folder of the package.
// For named packages, as in go test ./..., it hides the output of passing packages. Use [Examine]
// there.
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
		fmt.Fprintln(os.Stderr, summary) // go test hides the logs of a passing test
	}
}

// Examine checks an endpoint outside of a test and returns all verdicts in order. The command
// "dispensary check" prints them for an endpoint in any language. Examine fails with an
// *api.ArgumentError if target is invalid.
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

// each passes every selected case to report, together with a function that runs it. It runs
// unselected cases without a report if a selected case needs them.
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

// cases returns all cases in the order of their execution. The section Always is last, because
// it reviews the exchanges of all other cases.
func cases() []testCase {
	return slices.Concat(signatureCases, timestampCases, challengeCases, eventCases, deliveryCases, bodyCases, alwaysCases)
}

// summarizeSkipped returns one line with the skipped cases and their reasons, or "" if all cases
// ran.
func summarizeSkipped(test string, verdicts []Verdict) string {
	const named = 10 // more cases with one reason are only counted
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
