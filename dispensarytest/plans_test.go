package dispensarytest

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// draft returns the body of a new plan with two recommendations.
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
	maps.Copy(body, change)
	return body
}

func (b *browser) plansOf(patient string) string {
	return "/clinic/patients/" + patient + "/treatment_plans"
}

func TestInvalidPlansAreRejected(t *testing.T) {
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
		{map[string]any{"recommendations": []any{}}, "Recommendations can't be blank"},
		{map[string]any{"recommendations": []any{map[string]any{"variant_id": "x", "units_to_purchase": 1}}}, "Recommendations[0].variant must exist"},
		{map[string]any{"recommendations": []any{map[string]any{"variant_id": b.fake.Products.All()[0].VariantIDs[0]}}}, "Recommendations[0].units to purchase can't be blank"},
	} {
		b.send("POST", b.plansOf(patient), b.draft(c.change)).rejected(422, c.says)
	}
	b.send("POST", b.plansOf("nobody"), b.draft(nil)).rejected(404, "Not Found")
	b.with("clinic:write").send("POST", b.plansOf(patient), b.draft(nil)).rejected(403, "patients:read")
	assert.Equal(t, before, b.fake.Plans.All())
}

// The API documents only treatment_plan as required. The practitioner is optional if the token
// belongs to a practitioner.
func TestLinksNeedPractitioner(t *testing.T) {
	t.Parallel()
	body := map[string]any{"treatment_plan": map[string]any{}}
	const path = "/clinic/dynamic_links/treatment_plans"
	b := start(t, WithInMemory())
	b.token = b.fake.Tokens.Issue(b.fake.Users()[1]).AccessToken
	b.send("POST", path, body).ok(200)
	plans := b.fake.Plans.All()
	assert.Equal(t, b.fake.Users()[1].ID, plans[len(plans)-1].PractitionerID)
	b.token = b.fake.Tokens.Issue(b.fake.Users()[2]).AccessToken
	b.send("POST", path, body).rejected(422, "Treatment plan.practitioner can't be blank")
	start(t, WithInMemory(), WithTuning(Tuning{ClinicTokens: true})).send("POST", path, body).rejected(422, "can't be blank")
	start(t, WithInMemory(), WithBehavior(behavior.LinkPractitionerRequired)).send("POST", path, body).rejected(422, "can't be blank")
	assert.Len(t, b.fake.Plans.All(), len(plans))
}

// incomplete creates a draft without recommendations by a dynamic link. Without an address,
// the draft also has no patient.
func (b *browser) incomplete(email string) string {
	b.t.Helper()
	body := map[string]any{"treatment_plan": map[string]any{"practitioner_id": b.fake.Practitioners.All()[0].ID}}
	if email != "" {
		body["patient"] = map[string]any{"email": email}
	}
	return b.send("POST", "/clinic/dynamic_links/treatment_plans", body).ok(200, "dynamic_links", "treatment_plan", "id").(string)
}

// A sent plan has a patient and a recommendation: through the API, on the platform, and if
// updates activate drafts.
func TestIncompleteDraftsAreNotSent(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithBehavior(behavior.DraftUpdateActivates), WithBehavior(behavior.CheckoutStateNotCanceled))
	lines := map[string]any{"recommendations": b.draft(nil)["recommendations"]}
	for email, says := range map[string]string{"": "Treatment plan has no patient", b.fake.Patients.All()[0].Email: "Treatment plan has no recommendations"} {
		id := b.incomplete(email)
		path := "/clinic/treatment_plans/" + id
		b.send("PATCH", path+"/activate", nil).rejected(422, says)
		b.send("POST", path+"/in_office_checkout", nil).rejected(422, says)
		_, _, err := b.fake.Plans.Activate(id)
		require.ErrorIs(t, err, model.ErrValidation)
		plan, _ := b.fake.Plans.Get(id)
		assert.Equal(t, model.PlanStateDraft, plan.State)
		assert.Zero(t, plan.AvailableAt)
		assert.Empty(t, b.fake.Patients.Cart(""))
		after := b.send("PATCH", path, lines).object(200, "treatment_plan")
		assert.Equal(t, email != "", after["state"] == model.PlanStateActive, "an update activates a complete draft")
	}
	assert.Empty(t, b.kinds(0))
}

// An update keeps some fields and replaces others.
func TestPlanUpdateKeepsUnsentFields(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	id := b.send("POST", b.plansOf(b.fake.Patients.All()[0].ID), b.draft(map[string]any{"state": "active"})).ok(201, "treatment_plan", "id").(string)
	path := "/clinic/treatment_plans/" + id
	before := b.get(path).object(200, "treatment_plan")
	assert.Equal(t, "2026-03-02", before["available_at"])
	b.fake.Clock.Advance(time.Minute)
	one := map[string]any{"recommendations": b.draft(nil)["recommendations"].([]any)[:1]}
	after := b.send("PATCH", path, one).object(200, "treatment_plan")
	assert.Equal(t, "2026-03-02T09:01:00.000Z", after["updated_at"])
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
		b.send("PATCH", path, body).rejected(422, "Recommendations ")
		stored, _ := b.fake.Plans.Get(id)
		assert.Len(t, stored.Recommendations, 1, name)
	}
	b.send("PATCH", path, merged(one, "state", "draft")).ok(200)
	last, _ := lastRequest(b.fake)
	assert.Equal(t, "state", last.Unread[0].Name, "an update does not read the state")
	assert.Equal(t, "active", b.get(path).ok(200, "treatment_plan", "state"))
	b.fake.Clock.Advance(time.Minute)
	after = b.send("PATCH", path+"/cancel", nil).object(200, "treatment_plan")
	assert.Equal(t, "2026-03-02T09:02:00.000Z", after["updated_at"], "a cancellation is an update")
}

// The accepted types of a recommendation and the returned values.
func TestRecommendationFieldsAcceptTypes(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	variant := b.fake.Products.All()[0].VariantIDs[0]
	send := func(line map[string]any) response {
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
		send(map[string]any{"units_to_purchase": units}).rejected(422, "units to purchase ")
	}
	for _, refill := range []any{0, 1, "yes", "TRUE", "", []any{}} {
		send(map[string]any{"units_to_purchase": 1, "refill": refill}).rejected(422, "refill must be true or false")
	}
	for _, dosage := range []any{"twice", 2, []any{}, map[string]any{"amount": 1}, map[string]any{"frequency": true}, map[string]any{"duration": 30}} {
		send(map[string]any{"units_to_purchase": 1, "dosage": dosage}).rejected(422, "dosage")
	}
	for _, dosage := range []map[string]any{
		{}, {"amount": "1/2"}, {"amount": "1-2", "frequency": "every full moon", "duration": "until symptoms resolve", "format": "snake oil", "additional_info": "…"},
	} {
		line := send(map[string]any{"units_to_purchase": 1, "dosage": dosage}).ok(201, "treatment_plan", "recommendations").([]any)[0].(map[string]any)
		for name, value := range dosage {
			assert.Equal(t, value, line["dosage"].(map[string]any)[name], "every text is accepted")
		}
	}
	send(map[string]any{"units_to_purchase": 1, "quantity": 2}).ok(201)
	last, _ := lastRequest(b.fake)
	assert.Equal(t, "recommendations[0].quantity", last.Unread[0].Name)
}

func TestLinksFindOrCreatePatient(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	link := func(patient any) response {
		body := map[string]any{"treatment_plan": map[string]any{"practitioner_id": b.fake.Users()[0].ID}}
		if patient != nil {
			body["patient"] = patient
		}
		return b.send("POST", "/clinic/dynamic_links/treatment_plans", body)
	}
	jane := b.fake.Patients.All()[0]
	found := link(map[string]any{"email": "JANE.doe@example.org", "first_name": "Someone Else"}).object(200, "dynamic_links", "patient")
	assert.Equal(t, jane.ID, found["id"])
	assert.Equal(t, "Jane", found["first_name"], "an existing patient is not changed")
	made := link(map[string]any{"email": "alone@example.org"}).object(200, "dynamic_links", "patient")
	assert.Empty(t, made["first_name"], "an email address is enough")
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
		link(wrong).rejected(422, "")
	}
	assert.Len(t, b.fake.Patients.All(), 7)
	assert.Empty(t, b.fake.Events())
	assert.Len(t, b.fake.Plans.All(), 7)
}

func TestProtocolCreateStoresProtocol(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	practitioner := b.fake.Practitioners.All()[0].ID
	variant := b.fake.Products.All()[0].VariantIDs[0]
	before := len(b.fake.Protocols.All())
	created, err := b.fake.Protocols.Create(model.ProtocolCreate{Name: "Spring", PersonalMessage: "Walk a lot.", Draft: true,
		Recommendations: []model.ProtocolRecommendation{{VariantID: variant, Quantity: 2, Refill: true, Permutations: "with food", Dosage: model.Dosage{Amount: "1"}}}})
	require.NoError(t, err)
	shown := func() map[string]any { return b.get("/clinic/protocols/"+created.ID).object(200, "protocol") }
	protocol := shown()
	assert.Equal(t, "draft", protocol["current_state"])
	assert.Equal(t, map[string]any{"id": practitioner}, protocol["practitioner"])
	line := protocol["recommendations"].([]any)[0].(map[string]any)
	assert.Equal(t, variant, line["variant_id"])
	assert.EqualValues(t, 2, line["quantity_recommended"])
	assert.Contains(t, b.get("/clinic/practitioners/"+practitioner+"/protocols?current_state=draft").column("protocols", "name"), "Spring")

	created.Recommendations[0].Quantity = 99
	stored, known := b.fake.Protocols.Get(created.ID)
	assert.True(t, known)
	assert.Equal(t, 2, stored.Recommendations[0].Quantity, "callers get a copy")
	shared, err := b.fake.Protocols.Create(model.ProtocolCreate{Ownership: store.ProtocolShared})
	require.NoError(t, err)
	other := b.fake.Practitioners.All()[1].ID
	assert.Contains(t, b.get("/clinic/practitioners/"+other+"/protocols?ownership_type=shared").column("protocols", "name"), shared.Name)

	made, err := b.fake.Protocols.Create(model.ProtocolCreate{})
	require.NoError(t, err)
	assert.Equal(t, "active", made.State)
	assert.NotEmpty(t, made.Name)
	assert.Len(t, made.Recommendations, 1)
	assert.Len(t, b.fake.Protocols.All(), before+3)
	assert.Empty(t, b.fake.Events(), "the API has no event type for protocols")

	assert.Equal(t, b.fake.Protocols.All(), restarted(t, b.fake).Protocols.All())
}

func TestProtocolCreateRejectsInvalidInput(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	variant := fake.Products.All()[0].VariantIDs[0]
	one := func(_ model.Protocol, err error) error { return err }
	for _, c := range []struct {
		err  error
		kind error
		says string
	}{
		{one(fake.Protocols.Create(model.ProtocolCreate{PractitionerID: "x"})), model.ErrNotFound, "no practitioner"},
		{one(fake.Protocols.Create(model.ProtocolCreate{Ownership: "mine"})), model.ErrValidation, "ownership must be one of"},
		{one(fake.Protocols.Create(model.ProtocolCreate{Recommendations: []model.ProtocolRecommendation{{VariantID: "x", Quantity: 1}}})), model.ErrNotFound, "no variant"},
		{one(fake.Protocols.Create(model.ProtocolCreate{Recommendations: []model.ProtocolRecommendation{{VariantID: variant}}})), model.ErrValidation, "quantity"},
	} {
		require.ErrorIs(t, c.err, c.kind)
		require.ErrorContains(t, c.err, c.says)
		var typed *store.ActionError
		require.ErrorAs(t, c.err, &typed)
	}
}

// dataOf decodes an event's data.
func dataOf(t *testing.T, e model.Event) map[string]any {
	t.Helper()
	var data map[string]any
	require.NoError(t, json.Unmarshal(e.Data, &data))
	return data
}

// In order of time, a plan's cancellation follows its creation, even on a frozen clock, and an
// event of another object does not precede them.
func TestObjectEventsHaveDistinctTimes(t *testing.T) {
	t.Parallel()
	clock := frozen()
	b, hook := start(t, WithClock(clock)), listen(t, nil)
	b.subscribe(hook, model.EventTypes()...)
	now := clock.Now()
	plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{})
	require.NoError(t, err)
	_, edited, err := b.fake.Plans.Update(plan.ID, model.PlanUpdate{PersonalMessage: new("Hello")})
	require.NoError(t, err)
	gone, canceled, err := b.fake.Plans.Cancel(plan.ID)
	require.NoError(t, err)
	for i, e := range []model.Event{created, edited, canceled} {
		at := view.Time(now.Add(time.Duration(i) * time.Millisecond))
		assert.Equal(t, at, view.Time(e.CreatedAt))
		assert.Equal(t, at, dataOf(t, e)["treatment_plan"].(map[string]any)["updated_at"], "the data has the same time")
		assert.Equal(t, plan.ID, e.ObjectID)
	}
	assert.Equal(t, canceled.CreatedAt, gone.UpdatedAt)
	assert.Equal(t, view.Time(gone.UpdatedAt), b.get("/clinic/treatment_plans/"+plan.ID).ok(200, "treatment_plan", "updated_at"))

	_, other, err := b.fake.Plans.Create(b.fake.Patients.All()[1].ID, model.PlanCreate{})
	require.NoError(t, err)
	assert.Equal(t, canceled.CreatedAt, other.CreatedAt, "another object's event is not earlier")
	for _, e := range []model.Event{created, edited, canceled, other} {
		require.NoError(t, b.fake.Webhooks.WaitDelivered(t.Context(), e.ID), "the clock does not have to move")
	}
	assert.Len(t, hook.all(), 4)

	clock.Advance(3 * time.Millisecond) // later than the last event
	_, late, err := b.fake.Plans.Update(other.ObjectID, model.PlanUpdate{PersonalMessage: new("Hello")})
	require.NoError(t, err)
	assert.Equal(t, clock.Now(), late.CreatedAt)
}

// A snapshot stores the object of an event.
func TestSnapshotKeepsEventTimesApart(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{})
	require.NoError(t, err)
	_, canceled, err := restarted(t, b.fake).Plans.Cancel(plan.ID)
	require.NoError(t, err)
	assert.Equal(t, created.CreatedAt.Add(time.Millisecond), canceled.CreatedAt)
}

func TestEventTimesFollowBehavior(t *testing.T) {
	t.Parallel()
	behaving(t, behavior.EventTimesAsTheyFall, func(b *browser) {
		plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{})
		require.NoError(b.t, err)
		_, canceled, err := b.fake.Plans.Cancel(plan.ID)
		require.NoError(b.t, err)
		assert.Equal(b.t, created.CreatedAt, canceled.CreatedAt)
	})
}

func TestActivationFollowsBehavior(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	require.NoError(t, b.fake.Webhooks.RegisterHandler(newReceiver(nil)))
	require.NoError(t, b.fake.SetBehavior(behavior.IntegrationActivationFromTheStart))
	assert.NotNil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	_, err := b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.ErrorIs(t, err, model.ErrState)
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
	b.key = b.fake.ClinicKey()
	b.get("/clinic").ok(200)
	assert.Empty(t, b.get("/events/clinic_keys").ok(200, "events"), "the first request with the key emits no event")

	require.NoError(t, b.fake.SetBehavior("integration-activation=first-key"))
	b.key = ""
	assert.Nil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
	_, err = b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.NoError(t, err)
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 3, "the activation and the order")
}

func TestVariablesContainKeyOfOnlyClinic(t *testing.T) {
	t.Parallel()
	one := New(t, WithInMemory())
	assert.Contains(t, one.Variables(), "DISPENSARY_US_SANDBOX_CLINIC_KEY="+one.ClinicKey())
	two := New(t, WithInMemory(), WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 2}}))
	assert.NotContains(t, strings.Join(two.Variables(), "\n"), "CLINIC_KEY")
}
