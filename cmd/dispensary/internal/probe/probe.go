package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Run observes the behavior of a sandbox. If a request gets no response or ctx is canceled, it
// returns its results so far with the error. The remaining points are then [Ambiguous], unless
// no request can show them.
//
// Before the first request, Run returns [ErrNotSandbox] or [ErrDeclined].
func Run(ctx context.Context, c Config) (Report, error) {
	if !c.Application.Site.Environment.IsSandbox() {
		return Report{}, ErrNotSandbox
	}
	s := newSession(ctx, c)
	if !c.Confirm(c.plan(s.marker)) {
		return Report{}, ErrDeclined
	}
	report := Report{Environment: c.Application.Site.Environment.String(), Marker: s.marker, StartedAt: time.Now().UTC().Truncate(time.Second)}
	report.Findings = s.look(slices.Concat(recordPoints(), listPoints(), planPoints(), logPoints()))
	s.cancelPlans()
	report.Findings = append(report.Findings, s.look(tokenPoints())...)
	slices.SortFunc(report.Findings, func(a, b Finding) int { return strings.Compare(a.Point, b.Point) })
	report.Created, report.Requests = s.created, s.sent
	if errors.Is(s.err, errLimit) {
		return report, nil // the findings contain this error
	}
	return report, s.err
}

// look observes points in order.
func (s *session) look(points []point) []Finding {
	var all []Finding
	for _, p := range points {
		f := p.observe(s)
		if s.err != nil && f.Verdict != NotObservable {
			why := "an earlier request got no response"
			if errors.Is(s.err, errLimit) {
				why = s.err.Error()
			}
			f = ambiguous(why)
		}
		if f.Verdict == Seen && !slices.Contains(p.variants, f.Variant) {
			f.Verdict, f.Why, f.Variant = Ambiguous, f.Variant+" is not a known variant", ""
		}
		f.Point = p.name
		all = append(all, f)
	}
	return all
}
