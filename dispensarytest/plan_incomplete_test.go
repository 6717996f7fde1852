package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// incomplete makes a draft by a dynamic link, which recommends nothing; without a
// patient, too, unless there is an address.
func (b *browser) incomplete(email string) string {
	b.t.Helper()
	body := map[string]any{"treatment_plan": map[string]any{"practitioner_id": b.fake.Clinics.Practitioners()[0].ID}}
	if email != "" {
		body["patient"] = map[string]any{"email": email}
	}
	return b.send("POST", "/clinic/dynamic_links/treatment_plans", body).ok(200, "dynamic_links", "treatment_plan", "id").(string)
}

// A plan is sent to a patient and recommends something: through the API and on the
// platform, and where updates activate drafts.
func TestIncompleteDraftsAreNotSent(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithBehavior(DraftUpdateActivates), WithBehavior(CheckoutStateNotCancelled))
	lines := map[string]any{"recommendations": b.draft(nil)["recommendations"]}
	for email, says := range map[string]string{"": "Treatment plan has no patient", b.fake.Patients.All()[0].Email: "Treatment plan has no recommendations"} {
		id := b.incomplete(email)
		path := "/clinic/treatment_plans/" + id
		b.send("PATCH", path+"/activate", nil).refused(422, says)
		b.send("POST", path+"/in_office_checkout", nil).refused(422, says)
		_, _, err := b.fake.Plans.Activate(id)
		require.ErrorIs(t, err, model.ErrInvalid)
		plan, _ := b.fake.Plans.Get(id)
		assert.Equal(t, model.StateDraft, plan.State)
		assert.Zero(t, plan.AvailableAt)
		assert.Empty(t, b.fake.Patients.Cart(""))
		after := b.send("PATCH", path, lines).object(200, "treatment_plan")
		assert.Equal(t, email != "", after["state"] == model.StateActive, "an update activates what is complete")
	}
	assert.Empty(t, b.kinds(0))
}

func TestIncompleteDraftsAreSent(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithBehavior(IncompletePlanActivated))
	path := "/clinic/treatment_plans/" + b.incomplete("")
	shown := b.send("PATCH", path+"/activate", nil).object(200, "treatment_plan")
	assert.Equal(t, model.StateActive, shown["state"])
	assert.Nil(t, shown["patient"])
	b.send("POST", path+"/in_office_checkout", nil).refused(422, "Treatment plan has no patient")
	_, event, err := b.fake.Plans.Activate(b.incomplete(""))
	require.NoError(t, err)
	assert.Equal(t, model.TreatmentPlanCreated, event.Type)
}
