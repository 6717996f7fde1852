package dispensarytest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// data decodes an event's data.
func dataOf(t *testing.T, e model.Event) map[string]any {
	t.Helper()
	var data map[string]any
	require.NoError(t, json.Unmarshal(e.Data, &data))
	return data
}

func TestPlatformActionsMakeEvents(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.fake
	check := func(e model.Event, err error, kind, wrapper string) map[string]any {
		t.Helper()
		require.NoError(t, err)
		assert.Equal(t, kind, e.Type)
		data := dataOf(t, e)
		if wrapper == "" {
			assert.Contains(t, data, "id")
			return data
		}
		assert.Equal(t, []string{wrapper}, keysOf(data))
		return data[wrapper].(map[string]any)
	}
	patient, e, err := p.Patients.Register(model.NewPatient{FirstName: "Ada"})
	assert.ElementsMatch(t, patientKeys, keysOf(check(e, err, model.PatientCreated, "patient")))
	_, e, err = p.Patients.Edit(patient.ID, model.PatientChange{Email: new("ada@example.org")})
	assert.Equal(t, "ada@example.org", check(e, err, model.PatientUpdated, "patient")["email"])

	plan, e, err := p.Plans.Create(patient.ID, model.NewPlan{Draft: true, Recommendations: []model.Recommendation{{VariantID: p.Products.All()[0].VariantIDs[0], UnitsToPurchase: 1, Dosage: &model.Dosage{Amount: "1"}}}})
	require.NoError(t, err)
	assert.Empty(t, e.ID, "a draft makes no event yet")
	_, e, err = p.Plans.Activate(plan.ID)
	line := check(e, err, model.TreatmentPlanCreated, "treatment_plan")["recommendations"].([]any)[0].(map[string]any)
	assert.Equal(t, "1", line["dosage"].(map[string]any)["recommended_amount"], "events spell the dosage their own way")
	_, e, err = p.Plans.Update(plan.ID, model.PlanChange{PersonalMessage: new("Hello")})
	check(e, err, model.TreatmentPlanUpdated, "treatment_plan")
	_, e, err = p.Plans.UpdateRecommendation(plan.ID, model.Recommendation{VariantID: plan.Recommendations[0].VariantID, UnitsToPurchase: 4})
	check(e, err, model.TreatmentPlanRecommendation, "treatment_plan")
	order, e, err := p.Orders.Place(patient.ID, model.NewOrder{PlanIDs: []string{plan.ID}})
	check(e, err, model.OrderPlaced, "")
	assert.Equal(t, []model.Line{{VariantID: plan.Recommendations[0].VariantID, Quantity: 4}}, order.Lines)
	_, e, err = p.Plans.Cancel(plan.ID)
	assert.Equal(t, "cancelled", check(e, err, model.TreatmentPlanUpdated, "treatment_plan")["state"])

	product, e, err := p.Products.Create(model.NewProduct{Name: "Brand New"})
	assert.Equal(t, "Brand New", check(e, err, model.ProductCreated, "")["name"])
	assert.Empty(t, e.ClinicID)
	_, e, err = p.Products.Update(product.ID, model.ProductChange{Name: new("Newer")})
	check(e, err, model.ProductUpdated, "product")
	_, e, err = p.Products.UpdateVariant(product.VariantIDs[0], model.VariantChange{MSRP: new(model.Cents(100))})
	check(e, err, model.ProductUpdated, "product")
	_, e, err = p.Products.Describe(product.ID, "<p>x</p>")
	check(e, err, model.ProductDescriptionUpdated, "product")

	e, err = p.Clinics.RevokeKey(b.fake.ClinicKey())
	check(e, err, model.ClinicKeyRevoked, "clinic_key")
	e, err = p.Clinics.ReactivateKey(b.fake.ClinicKey())
	check(e, err, model.ClinicKeyActivated, "clinic_key")

	seen := make(map[string]bool)
	for _, e := range p.Events() {
		seen[e.Type] = true
	}
	assert.Len(t, seen, len(model.EventTypes()))

	refunded, err := p.Orders.Refund(order.ID, 0)
	require.NoError(t, err)
	assert.Zero(t, refunded.PaymentTotal)
	assert.Equal(t, order.PaymentTotal, refunded.Refunded)
}

func TestPlatformActionsAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t).fake
	jane, sam := p.Patients.All()[0], p.Patients.All()[1]
	third := func(_, _ any, err error) error { return err }
	for _, c := range []struct {
		err  error
		kind error
	}{
		{third(p.Orders.Place("nobody", model.NewOrder{})), model.ErrNotFound},
		{third(p.Orders.Place(jane.ID, model.NewOrder{Lines: []model.Line{{VariantID: "x", Quantity: 1}}})), model.ErrNotFound},
		{third(p.Orders.Place(sam.ID, model.NewOrder{PlanIDs: []string{p.Plans.All()[0].ID}})), model.ErrInvalid},
		{third(p.Patients.Register(model.NewPatient{Email: jane.Email})), model.ErrInvalid},
		{third(p.Patients.Edit(jane.ID, model.PatientChange{Gender: new("?")})), model.ErrInvalid},
		{third(p.Patients.Edit("x", model.PatientChange{})), model.ErrNotFound},
		{third(p.Plans.Create(jane.ID, model.NewPlan{PractitionerID: "x"})), model.ErrNotFound},
		{third(p.Plans.Activate(p.Plans.All()[0].ID)), model.ErrState},
		{third(p.Products.UpdateVariant("x", model.VariantChange{})), model.ErrNotFound},
		{third(p.Products.UpdateVariant(p.Products.All()[0].VariantIDs[0], model.VariantChange{Status: new("sold")})), model.ErrInvalid},
		{third(p.Products.Create(model.NewProduct{BrandID: "x"})), model.ErrNotFound},
	} {
		require.ErrorIs(t, c.err, c.kind)
		var typed *model.ActionError
		require.ErrorAs(t, c.err, &typed)
		assert.NotEmpty(t, typed.Action)
	}
	assert.Empty(t, p.Events())
	assert.Len(t, p.Products.All(), 44)
}

func TestEventsAreReadForThirtyDays(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	p := b.fake
	_, old, err := p.Patients.Register(model.NewPatient{})
	require.NoError(t, err)
	b.fake.Clock().Advance(48 * time.Hour)
	_, fresh, err := p.Patients.Edit(p.Patients.All()[0].ID, model.PatientChange{FirstName: new("J")})
	require.NoError(t, err)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken

	item := b.get("/events/patients").ok(200, "events").([]any)[0]
	assert.ElementsMatch(t, []string{"id", "type", "created_at", "clinic_id"}, keysOf(item))
	assert.ElementsMatch(t, []string{"id", "type", "created_at", "clinic_id", "data"}, keysOf(b.get("/events/"+old.ID).ok(200, "event")))
	for query, want := range map[string][]any{
		"":                                   {old.ID, fresh.ID},
		"?order_by=DESC":                     {fresh.ID, old.ID},
		"?sort_by=event_type&order_by=ASC":   {old.ID, fresh.ID},
		"?event_type=patient.updated":        {fresh.ID},
		"?created_at=2026-03-02":             {old.ID},
		"?created_at=%3E2026-03-02":          {fresh.ID},
		"?created_at=%3C2026-03-04":          {old.ID},
		"?created_at=2026-03-01..2026-03-04": {old.ID, fresh.ID},
		"?created_at=2026-03-05":             {},
	} {
		assert.Equal(t, want, b.get("/events/patients"+query).column("events", "id"), query)
	}
	for _, query := range []string{"?created_at=yesterday", "?created_at=%3E", "?created_at=..", "?sort_by=id", "?event_type=order.placed", "?order_by=up"} {
		b.get("/events/patients"+query).refused(422, "must be")
	}
	b.with("catalog:read").get("/events/"+old.ID).refused(403, "patients:read")

	b.fake.Clock().Advance(28*24*time.Hour + time.Second)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	b.get("/events/"+old.ID).refused(404, "Not Found")
	assert.Equal(t, []any{fresh.ID}, b.get("/events/patients").column("events", "id"))
}

func TestFirstUseOfTheKeyActivates(t *testing.T) {
	t.Parallel()
	b := start(t, WithBehavior(IntegrationActivationFirstKey), WithClock(frozen()))
	assert.Nil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	b.key = b.fake.ClinicKey()
	assert.Equal(t, "2026-03-02T09:00:00.000Z", b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	b.get("/clinic").ok(200)
	assert.Equal(t, []any{model.ClinicKeyActivated}, b.get("/events/clinic_keys").column("events", "type"))

	_, err := b.fake.Clinics.RevokeKey(b.key)
	require.NoError(t, err)
	b.get("/clinic").refused(401, "The clinic key was revoked")
	b.key = "guess"
	b.get("/clinic").refused(401, "The clinic key is invalid")
}

func TestOrdersAreFilteredAndSorted(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	order, _ := b.place()
	item := b.get("/clinic/orders?order_number="+order.Number).ok(200, "orders").([]any)[0].(map[string]any)
	assert.ElementsMatch(t, []string{"id", "order_number", "completed_at", "msrp_total", "item_total", "payment_total", "variant_ids", "treatment_plan_ids", "patient_id"}, keysOf(item))
	assert.Equal(t, "2026-03-02T04:00:00.000-05:00", item["completed_at"])
	assert.Equal(t, []any{order.ID}, b.get("/clinic/orders?completed_at=%3E2026-02-01").column("orders", "id"))
	assert.Len(t, b.get("/clinic/orders?completed_at=%3C2026-02-01&sort_by=order_number&order_by=DESC").column("orders", "id"), 3)
	plan := b.fake.Orders.All()[0].PlanIDs[0]
	assert.Len(t, b.get("/clinic/orders?treatment_plan_id="+plan).column("orders", "id"), 1)
	mine := b.get("/clinic/patients/"+order.PatientID+"/orders").ok(200, "orders").([]any)
	assert.Len(t, mine, 2)
	assert.NotContains(t, mine[0], "patient_id")
	single := b.get("/clinic/orders/"+order.ID).object(200, "order")
	assert.NotContains(t, single, "variant_ids")
	assert.Contains(t, single, "line_items")
	for _, field := range []string{"patient_id", "treatment_plan_id", "completed_at"} {
		assert.Len(t, b.get("/clinic/orders?sort_by="+field).column("orders", "id"), 4)
	}
}
