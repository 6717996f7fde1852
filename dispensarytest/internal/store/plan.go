package store

import (
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// PlanLacks is what a plan lacks that is to be sent or bought; "" is nothing.
func PlanLacks(p *model.Plan) string {
	switch {
	case p.PatientID == "":
		return "has no patient"
	case len(p.Recommendations) == 0:
		return "has no recommendations"
	}
	return ""
}

// PlanUnready is why a draft cannot be activated: an assumption.
func PlanUnready(p *model.Plan, reads *behavior.Set) string {
	if reads.ActivateIncomplete {
		return ""
	}
	return PlanLacks(p)
}

func ActivatePlan(p *model.Plan, now time.Time) {
	p.State, p.AvailableAt = model.StateActive, now
	TouchPlan(p, now)
}

// TouchPlan never takes back the time of the plan's last event, which may be later than
// the clock.
func TouchPlan(p *model.Plan, now time.Time) {
	if now.After(p.UpdatedAt) {
		p.UpdatedAt = now
	}
}

// CancelPlan empties the plan. API section: "States and transitions".
func CancelPlan(p *model.Plan, now time.Time) {
	p.State, p.Recommendations = model.StateCancelled, nil
	TouchPlan(p, now)
}

// LinesOf adds up recommendations of the same variant.
func LinesOf(recommended []model.Recommendation) []model.Line {
	lines := make([]model.Line, 0, len(recommended))
	for _, r := range recommended {
		at := slices.IndexFunc(lines, func(l model.Line) bool { return l.VariantID == r.VariantID })
		if at >= 0 {
			lines[at].Quantity += r.UnitsToPurchase
			continue
		}
		lines = append(lines, model.Line{VariantID: r.VariantID, Quantity: r.UnitsToPurchase})
	}
	return lines
}
