package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// draft is the body of a new plan with two recommendations.
func (b *browser) draft(change map[string]any) map[string]any {
	products := b.fake.Products.All()
	body := map[string]any{
		"practitioner_id": b.fake.Users()[0].ID, "state": "draft", "personal_message": "Take care.",
		"metadata": map[string]any{"id": "visit-9"},
		"recommendations": []any{
			map[string]any{"variant_id": products[0].VariantIDs[0], "units_to_purchase": "2", "refill": "true", "dosage": map[string]any{"amount": "1-2", "frequency": "every night", "duration": nil, "format": "capsule", "additional_info": ""}},
			map[string]any{"variant_id": products[1].VariantIDs[0], "units_to_purchase": 1, "refill": false},
		},
	}
	for key, value := range change {
		body[key] = value
	}
	return body
}

func (b *browser) plansOf(patient string) string {
	return "/clinic/patients/" + patient + "/treatment_plans"
}

func TestPlanIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	patient := b.fake.Patients.All()[0].ID
	before := b.fake.Plans.All()
	for _, c := range []struct {
		change map[string]any
		says   string
	}{
		{map[string]any{"practitioner_id": nil}, "Practitioner can't be blank"},
		{map[string]any{"practitioner_id": "x"}, "Practitioner must exist"},
		{map[string]any{"state": "cancelled"}, "State must be one of draft, active"},
		{map[string]any{"recommendations": []any{map[string]any{"variant_id": "x", "units_to_purchase": 1}}}, "Recommendations[0].variant must exist"},
	} {
		b.send("POST", b.plansOf(patient), b.draft(c.change)).refused(422, c.says)
	}
	b.send("POST", b.plansOf("nobody"), b.draft(nil)).refused(404, "Not Found")
	b.with("clinic:write").send("POST", b.plansOf(patient), b.draft(nil)).refused(403, "patients:read")
	assert.Equal(t, before, b.fake.Plans.All())
}

func TestDynamicLinks(t *testing.T) {
	t.Parallel()
	b := start(t)
	const path = "/clinic/dynamic_links/treatment_plans"
	request := map[string]any{"treatment_plan": map[string]any{"practitioner_id": b.fake.Users()[0].ID}, "patient": map[string]any{"email": "link@example.org"}}
	link := b.send("POST", path, request).object(200, "dynamic_links")
	assert.Equal(t, link, b.get(path+"/"+link["treatment_plan"].(map[string]any)["id"].(string)).ok(200, "dynamic_links"))
	b.send("POST", path, map[string]any{"patient": map[string]any{}}).refused(400, "treatment_plan")
	narrow := b.with("clinic:write")
	narrow.send("POST", path, request).ok(200) // finds the patient
	request["patient"] = map[string]any{"email": "unseen@example.org"}
	narrow.send("POST", path, request).refused(403, "patients:write")
	cancelled, _, err := b.fake.Plans.Cancel(b.fake.Plans.All()[0].ID)
	require.NoError(t, err)
	b.get(path+"/"+cancelled.ID).refused(422, "is cancelled")
}

// Only treatment_plan is documented as required: with a practitioner's own token the
// practitioner may be left out, with any other it may not.
func TestLinksWithoutPractitioner(t *testing.T) {
	t.Parallel()
	body := map[string]any{"treatment_plan": map[string]any{}}
	const path = "/clinic/dynamic_links/treatment_plans"
	b := start(t, WithInMemory())
	b.token = b.fake.Tokens.Issue(b.fake.Users()[1]).AccessToken
	b.send("POST", path, body).ok(200)
	plans := b.fake.Plans.All()
	assert.Equal(t, b.fake.Users()[1].ID, plans[len(plans)-1].PractitionerID)
	b.token = b.fake.Tokens.Issue(b.fake.Users()[2]).AccessToken
	b.send("POST", path, body).refused(422, "Treatment plan.practitioner can't be blank")
	start(t, WithInMemory(), WithClinicTokens()).send("POST", path, body).refused(422, "can't be blank")
	start(t, WithInMemory(), WithBehavior(LinkPractitionerRequired)).send("POST", path, body).refused(422, "can't be blank")
	assert.Len(t, b.fake.Plans.All(), len(plans))
}

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
