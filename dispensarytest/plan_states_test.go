package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What stays and what goes with an update.
func TestPlanUpdates(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	id := b.send("POST", b.plansOf(b.fake.Patients.All()[0].ID), b.draft(nil)).ok(201, "treatment_plan", "id").(string)
	path := "/clinic/treatment_plans/" + id
	before := b.get(path).object(200, "treatment_plan")
	one := map[string]any{"recommendations": b.draft(nil)["recommendations"].([]any)[:1]}
	after := b.send("PATCH", path, one).object(200, "treatment_plan")
	assert.Len(t, after["recommendations"], 1, "recommendations are replaced as a whole")
	for _, field := range []string{"id", "state", "patient", "practitioner", "created_at", "personal_message", "metadata", "available_at"} {
		assert.Equal(t, before[field], after[field], field)
	}
	after = b.send("PATCH", path, merged(merged(one, "personal_message", nil), "metadata", map[string]any{"id": nil})).object(200, "treatment_plan")
	assert.Nil(t, after["personal_message"])
	assert.Equal(t, map[string]any{"id": nil}, after["metadata"])
	for name, body := range map[string]map[string]any{
		"nothing": {}, "no lines": {"personal_message": "x"}, "an empty list": {"recommendations": []any{}}, "null": {"recommendations": nil},
		"an object": {"recommendations": map[string]any{}}, "texts": {"recommendations": []any{"x"}},
	} {
		b.send("PATCH", path, body).refused(422, "Recommendations ")
		stored, _ := b.fake.Plans.Get(id)
		assert.Len(t, stored.Recommendations, 1, name)
	}
	b.send("PATCH", path, merged(one, "state", "active")).ok(200)
	last, _ := b.fake.Journal().Last()
	assert.Equal(t, "state", last.Unread[0].Name, "an update knows nothing of the state")
	assert.Equal(t, "draft", b.get(path).ok(200, "treatment_plan", "state"))
}

// The types a recommendation takes, and what comes back.
func TestRecommendationTypes(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	variant := b.fake.Products.All()[0].VariantIDs[0]
	send := func(line map[string]any) answer {
		line["variant_id"] = variant
		return b.send("POST", b.plansOf(b.fake.Patients.All()[0].ID), b.draft(map[string]any{"recommendations": []any{line}}))
	}
	for _, c := range []struct {
		units, refill any
		gotUnits      float64
		gotRefill     bool
	}{
		{1, true, 1, true}, {"12", "true", 12, true}, {3, "false", 3, false}, {"1", nil, 1, false}, {2147483647, false, 2147483647, false},
	} {
		line := send(map[string]any{"units_to_purchase": c.units, "refill": c.refill}).ok(201, "treatment_plan", "recommendations").([]any)[0].(map[string]any)
		assert.Equal(t, c.gotUnits, line["units_to_purchase"])
		assert.Equal(t, c.gotRefill, line["refill"])
	}
	for _, units := range []any{0, -1, 1.5, "", "one", "1.0", true, nil, []any{1}, 2147483648, "0x10"} {
		send(map[string]any{"units_to_purchase": units}).refused(422, "units to purchase ")
	}
	for _, refill := range []any{0, 1, "yes", "TRUE", "", []any{}} {
		send(map[string]any{"units_to_purchase": 1, "refill": refill}).refused(422, "refill must be true or false")
	}
	for _, dosage := range []any{"twice", 2, []any{}, map[string]any{"amount": 1}, map[string]any{"frequency": true}, map[string]any{"duration": 30}} {
		send(map[string]any{"units_to_purchase": 1, "dosage": dosage}).refused(422, "dosage")
	}
	for _, dosage := range []map[string]any{
		{}, {"amount": "1/2"}, {"amount": "1-2", "frequency": "every full moon", "duration": "until symptoms resolve", "format": "snake oil", "additional_info": "…"},
	} {
		line := send(map[string]any{"units_to_purchase": 1, "dosage": dosage}).ok(201, "treatment_plan", "recommendations").([]any)[0].(map[string]any)
		for name, value := range dosage {
			assert.Equal(t, value, line["dosage"].(map[string]any)[name], "no text is refused")
		}
	}
	send(map[string]any{"units_to_purchase": 1, "quantity": 2}).ok(201)
	last, _ := b.fake.Journal().Last()
	assert.Equal(t, "recommendations[0].quantity", last.Unread[0].Name)
}

func TestLinksFindOrMakeTheirPatient(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	link := func(patient any) answer {
		body := map[string]any{"treatment_plan": map[string]any{"practitioner_id": b.fake.Users()[0].ID}}
		if patient != nil {
			body["patient"] = patient
		}
		return b.send("POST", "/clinic/dynamic_links/treatment_plans", body)
	}
	jane := b.fake.Patients.All()[0]
	found := link(map[string]any{"email": "JANE.doe@example.org", "first_name": "Someone Else"}).object(200, "dynamic_links", "patient")
	assert.Equal(t, jane.ID, found["id"])
	assert.Equal(t, "Jane", found["first_name"], "who is found is not changed")
	made := link(map[string]any{"email": "alone@example.org"}).object(200, "dynamic_links", "patient")
	assert.Empty(t, made["first_name"], "an address alone will do")
	full := link(map[string]any{
		"email": "full@example.org", "first_name": "Full", "last_name": "Fields", "date_of_birth": "1980-01-02", "gender": "female",
		"mobile_number": "+15035550111", "discount": 5, "send_welcome_email": false,
	}).object(200, "dynamic_links", "patient")
	assert.Equal(t, []any{"Full", "1980-01-02", "female", 15.0, 0.0}, []any{full["first_name"], full["date_of_birth"], full["gender"], full["total_discount"], full["text_message_notification"]})
	stored, _ := b.fake.Patients.Get(full["id"].(string))
	assert.False(t, stored.Welcomed)
	noPatient := link(nil).object(200, "dynamic_links")
	assert.Nil(t, noPatient["patient"])
	plan, _ := b.fake.Plans.Get(noPatient["treatment_plan"].(map[string]any)["id"].(string))
	assert.Empty(t, plan.PatientID)
	assert.Nil(t, b.get("/clinic/treatment_plans/"+plan.ID).ok(200, "treatment_plan", "patient"))
	for _, wrong := range []any{map[string]any{}, map[string]any{"email": ""}, map[string]any{"email": "x"}, map[string]any{"email": "ok@example.org", "gender": "?"}, "ok@example.org", []any{}} {
		link(wrong).refused(422, "")
	}
	assert.Len(t, b.fake.Patients.All(), 7)
	assert.Empty(t, b.fake.Events())
	assert.Len(t, b.fake.Plans.All(), 7)
}
