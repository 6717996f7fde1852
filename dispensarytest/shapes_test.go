package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The platform's oddities stand where the API shows them, and nowhere else.
func TestOddities(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := exemplars(t, b)
	jane := b.get(all["patients.get"].path).object(200, "patient")
	link := b.get(all["dynamic_links.get"].path).object(200, "dynamic_links", "patient")
	assert.Equal(t, true, jane["text_message_notification"])
	assert.EqualValues(t, 1, link["text_message_notification"], "a number in place of a boolean")

	order := b.get(all["orders.get"].path).object(200, "order")
	for _, total := range []string{"msrp_total", "item_total", "payment_total"} {
		assert.Regexp(t, `^\d+\.\d\d$`, order[total], "a decimal in a string")
	}
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}-05:00$`, order["completed_at"], "with an offset")
	plan := b.get(all["treatment_plans.get"].path).object(200, "treatment_plan")
	assert.Regexp(t, `^\d{4}-\d\d-\d\d$`, plan["available_at"], "a date")
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, plan["created_at"], "in UTC")

	// The same dosage has one spelling in a plan and another in an event.
	_, event, err := b.fake.Plans.Update(b.fake.Plans.All()[0].ID, model.PlanChange{})
	assert.NoError(t, err)
	inEvent := b.get("/events/"+event.ID).ok(200, "event", "data", "treatment_plan", "recommendations").([]any)[0].(map[string]any)["dosage"].(map[string]any)
	inPlan := plan["recommendations"].([]any)[0].(map[string]any)["dosage"].(map[string]any)
	for name, other := range map[string]string{"amount": "recommended_amount", "frequency": "recommended_frequency", "duration": "recommended_duration", "format": "format"} {
		assert.Equal(t, inPlan[name], inEvent[other], name)
		assert.Contains(t, inEvent, other)
	}
}
