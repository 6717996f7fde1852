package dispensarytest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every action refuses what is not there, what is wrong and what the state does
// not allow, says why, and changes nothing.
func TestEveryActionRefuses(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	p := fake.Platform()
	jane, sam := p.Patients()[0], p.Patients()[1]
	active, variant := p.Plans()[0], p.Products()[0].VariantIDs[0]
	draft, _, err := p.CreatePlan(jane.ID, NewPlan{Draft: true})
	require.NoError(t, err)
	gone, _, err := p.CreatePlan(jane.ID, NewPlan{})
	require.NoError(t, err)
	_, _, err = p.CancelPlan(gone.ID)
	require.NoError(t, err)
	refunded, err := p.RefundOrder(p.Orders()[2].ID, 0)
	require.NoError(t, err)
	one := func(_, _ any, err error) error { return err }
	two := func(_ any, err error) error { return err }
	line := []Recommendation{{VariantID: variant, UnitsToPurchase: 1}}
	before, events := bytesOf(fake.world), len(p.Events())
	for _, c := range []struct {
		action string
		kind   error
		err    error
		says   string
	}{
		{"RegisterPatient", ErrInvalid, one(p.RegisterPatient(NewPatient{Email: jane.Email})), "is taken"},
		{"RegisterPatient", ErrInvalid, one(p.RegisterPatient(NewPatient{Email: "nonsense"})), "e-mail"},
		{"RegisterPatient", ErrInvalid, one(p.RegisterPatient(NewPatient{DateOfBirth: "1.1.1990"})), "date"},
		{"RegisterPatient", ErrInvalid, one(p.RegisterPatient(NewPatient{Gender: "Female"})), "genders"},
		{"RegisterPatient", ErrInvalid, one(p.RegisterPatient(NewPatient{MobileNumber: "555"})), "international"},
		{"EditPatient", ErrNotFound, one(p.EditPatient("x", PatientChange{})), "no patient"},
		{"EditPatient", ErrInvalid, one(p.EditPatient(jane.ID, PatientChange{Email: &sam.Email})), "is taken"},
		{"EditPatient", ErrInvalid, one(p.EditPatient(jane.ID, PatientChange{LastName: new("")})), "taken away"},
		{"CreatePlan", ErrNotFound, one(p.CreatePlan("x", NewPlan{})), "no patient"},
		{"CreatePlan", ErrNotFound, one(p.CreatePlan(jane.ID, NewPlan{PractitionerID: "x"})), "no practitioner"},
		{"CreatePlan", ErrNotFound, one(p.CreatePlan(jane.ID, NewPlan{Recommendations: []Recommendation{{VariantID: "x", UnitsToPurchase: 1}}})), "no variant"},
		{"CreatePlan", ErrInvalid, one(p.CreatePlan(jane.ID, NewPlan{Recommendations: []Recommendation{{VariantID: variant}}})), "number of units"},
		{"ActivatePlan", ErrNotFound, one(p.ActivatePlan("x")), "no treatment plan"},
		{"ActivatePlan", ErrState, one(p.ActivatePlan(active.ID)), "is active"},
		{"ActivatePlan", ErrState, one(p.ActivatePlan(gone.ID)), "is cancelled"},
		{"UpdatePlan", ErrState, one(p.UpdatePlan(gone.ID, PlanChange{})), "is cancelled"},
		{"UpdatePlan", ErrInvalid, one(p.UpdatePlan(active.ID, PlanChange{Recommendations: []Recommendation{{VariantID: variant, UnitsToPurchase: -1}}})), "units"},
		{"UpdateRecommendation", ErrNotFound, one(p.UpdateRecommendation(draft.ID, Recommendation{VariantID: "x", UnitsToPurchase: 1})), "recommended variant"},
		{"UpdateRecommendation", ErrState, one(p.UpdateRecommendation(gone.ID, line[0])), "is cancelled"},
		{"CancelPlan", ErrState, one(p.CancelPlan(draft.ID)), "is draft"},
		{"CancelPlan", ErrState, one(p.CancelPlan(gone.ID)), "is cancelled"},
		{"PlaceOrder", ErrNotFound, one(p.PlaceOrder("x", NewOrder{})), "no patient"},
		{"PlaceOrder", ErrNotFound, one(p.PlaceOrder(jane.ID, NewOrder{PlanIDs: []string{"x"}})), "no treatment plan"},
		{"PlaceOrder", ErrInvalid, one(p.PlaceOrder(sam.ID, NewOrder{PlanIDs: []string{active.ID}})), "another patient"},
		{"PlaceOrder", ErrState, one(p.PlaceOrder(jane.ID, NewOrder{PlanIDs: []string{draft.ID}})), "is draft"},
		{"PlaceOrder", ErrNotFound, one(p.PlaceOrder(jane.ID, NewOrder{Lines: []Line{{VariantID: "x", Quantity: 1}}})), "no variant"},
		{"PlaceOrder", ErrInvalid, one(p.PlaceOrder(jane.ID, NewOrder{Lines: []Line{{VariantID: variant}}})), "quantity"},
		{"RefundOrder", ErrNotFound, two(p.RefundOrder("x", 0)), "no order"},
		{"RefundOrder", ErrState, two(p.RefundOrder(refunded.ID, 0)), "refunded already"},
		{"RefundOrder", ErrInvalid, two(p.RefundOrder(p.Orders()[0].ID, -1)), "cannot be refunded"},
		{"RefundOrder", ErrInvalid, two(p.RefundOrder(p.Orders()[0].ID, 1_000_000)), "cannot be refunded"},
		{"CreateProduct", ErrNotFound, one(p.CreateProduct(NewProduct{BrandID: "x"})), "no brand"},
		{"CreateProduct", ErrInvalid, one(p.CreateProduct(NewProduct{Variants: []NewVariant{{Status: "sold"}}})), "statuses"},
		{"UpdateProduct", ErrNotFound, one(p.UpdateProduct("x", ProductChange{})), "no product"},
		{"UpdateProduct", ErrInvalid, one(p.UpdateProduct(p.Products()[0].ID, ProductChange{Name: new("")})), "needs a name"},
		{"DescribeProduct", ErrNotFound, one(p.DescribeProduct("x", "")), "no product"},
		{"UpdateVariant", ErrNotFound, one(p.UpdateVariant("x", VariantChange{})), "no variant"},
		{"UpdateVariant", ErrInvalid, one(p.UpdateVariant(variant, VariantChange{Status: new("")})), "statuses"},
		{"UpdateVariant", ErrInvalid, one(p.UpdateVariant(variant, VariantChange{MSRP: new(Cents(-1))})), "price"},
		{"RevokeClinicKey", ErrNotFound, two(p.RevokeClinicKey("x")), "no integration's key"},
		{"ReactivateClinicKey", ErrNotFound, two(p.ReactivateClinicKey("x")), "no integration's key"},
		{"ReactivateClinicKey", ErrState, two(p.ReactivateClinicKey(fake.ClinicKey())), "not revoked"},
	} {
		require.ErrorIs(t, c.err, c.kind, c.action)
		var typed *ActionError
		require.ErrorAs(t, c.err, &typed)
		assert.Equal(t, c.action, typed.Action)
		assert.Contains(t, c.err.Error(), "dispensarytest: "+c.action+": "+c.kind.Error()+": ")
		assert.Contains(t, c.err.Error(), c.says)
		for _, other := range []error{ErrNotFound, ErrInvalid, ErrState} {
			assert.Equal(t, other == c.kind, errors.Is(c.err, other))
		}
	}
	assert.Equal(t, before, bytesOf(fake.world))
	assert.Len(t, p.Events(), events)
}

func TestPatientsRegisterAndEdit(t *testing.T) {
	t.Parallel()
	p := New(t, WithInMemory()).Platform()
	made, _, err := p.RegisterPatient(NewPatient{})
	require.NoError(t, err)
	assert.Equal(t, "newcomer-6@example.org", made.Email, "what is empty is made up, in reserved names")
	assert.True(t, made.Welcomed)
	full := NewPatient{FirstName: "Ada", LastName: "Lowe", Email: "ada@example.org", DateOfBirth: "1990-12-10", Gender: Female, MobileNumber: "+15035550142"}
	ada, _, err := p.RegisterPatient(full)
	require.NoError(t, err)
	got, found := p.Patient(ada.ID)
	require.True(t, found)
	assert.Equal(t, ada, got)
	edited, event, err := p.EditPatient(ada.ID, PatientChange{DateOfBirth: new(""), MobileNumber: new("+15035550143"), TextNotification: new(true)})
	require.NoError(t, err)
	assert.Empty(t, edited.DateOfBirth)
	assert.True(t, edited.TextNotification)
	assert.Equal(t, "Ada", edited.FirstName)
	data := event.decode(t)["patient"].(map[string]any)
	assert.Nil(t, data["date_of_birth"])
	assert.Equal(t, "+15035550143", data["mobile_number"])
	_, found = p.Patient("x")
	assert.False(t, found)
}

func TestOrdersAddUp(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	p := b.fake.Platform()
	sam := p.Patients()[1] // 5 percent, and the clinic's 10
	one, two := p.Products()[0].VariantIDs[0], p.Products()[2].VariantIDs[1]
	first, _ := p.Variant(one)
	second, _ := p.Variant(two)
	order, event, err := p.PlaceOrder(sam.ID, NewOrder{Lines: []Line{{VariantID: one, Quantity: 2}, {VariantID: two, Quantity: 1}}})
	require.NoError(t, err)
	assert.Equal(t, first.MSRP*2+second.MSRP, order.MSRPTotal)
	assert.Equal(t, order.MSRPTotal.less(15), order.ItemTotal)
	assert.Equal(t, order.ItemTotal+shipping, order.PaymentTotal)
	shown := b.get("/clinic/orders/"+order.ID).object(200, "order")
	assert.Equal(t, order.MSRPTotal.String(), shown["msrp_total"])
	assert.Equal(t, []any{map[string]any{"variant_id": one, "quantity": 2.0}, map[string]any{"variant_id": two, "quantity": 1.0}}, shown["line_items"])
	assert.Equal(t, shown, event.decode(t), "the event carries the order as it is read")

	part, err := p.RefundOrder(order.ID, 100)
	require.NoError(t, err)
	assert.Equal(t, order.PaymentTotal-100, part.PaymentTotal)
	rest, err := p.RefundOrder(order.ID, 0)
	require.NoError(t, err)
	assert.Zero(t, rest.PaymentTotal)
	assert.Equal(t, order.PaymentTotal, rest.Refunded)
	assert.Equal(t, order.ItemTotal, rest.ItemTotal, "only the payment goes down")
	assert.Equal(t, "0.00", b.get("/clinic/orders/"+order.ID).ok(200, "order", "payment_total"))
	assert.Len(t, p.Events(), 1, "a refund makes no event")
}

func TestCheckoutFillsTheCart(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	p := b.fake.Platform()
	plan := p.Plans()[0]
	assert.Empty(t, p.Cart(plan.PatientID))
	b.send("POST", "/clinic/treatment_plans/"+plan.ID+"/in_office_checkout", nil).ok(201)
	want := []Line{{plan.Recommendations[0].VariantID, 1}, {plan.Recommendations[1].VariantID, 2}}
	assert.Equal(t, want, p.Cart(plan.PatientID))
	b.send("POST", "/clinic/treatment_plans/"+plan.ID+"/in_office_checkout", nil).ok(201)
	assert.Equal(t, want, p.Cart(plan.PatientID), "it is cleared first")
	_, _, err := p.CancelPlan(plan.ID)
	require.NoError(t, err)
	order, _, err := p.PlaceOrder(plan.PatientID, NewOrder{})
	require.NoError(t, err, "what is in the cart can be bought")
	assert.Equal(t, want, order.Lines)
	assert.Equal(t, []string{plan.ID}, order.PlanIDs)
	assert.Empty(t, p.Cart(plan.PatientID))
	again, _, err := p.PlaceOrder(plan.PatientID, NewOrder{})
	require.NoError(t, err)
	assert.Empty(t, again.PlanIDs)
	assert.Len(t, again.Lines, 1, "an empty cart buys one pack of something")
}

// A plan that recommends a variant twice asks for the sum.
func TestPlanLinesAreSummed(t *testing.T) {
	t.Parallel()
	p := New(t, WithInMemory()).Platform()
	variant := p.Products()[0].VariantIDs[0]
	plan, _, err := p.CreatePlan(p.Patients()[0].ID, NewPlan{Recommendations: []Recommendation{{VariantID: variant, UnitsToPurchase: 1}, {VariantID: variant, UnitsToPurchase: 3}}})
	require.NoError(t, err)
	order, _, err := p.PlaceOrder(plan.PatientID, NewOrder{PlanIDs: []string{plan.ID}})
	require.NoError(t, err)
	assert.Equal(t, []Line{{variant, 4}}, order.Lines)
}

func TestCatalogChanges(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	p := b.fake.Platform()
	product, event, err := p.CreateProduct(NewProduct{
		Name: "Kelp", BrandID: p.Brands()[1].ID, DescriptionHTML: "<p>Sea.</p>",
		Variants: []NewVariant{{Units: 30, UnitOfMeasure: "tablets", MSRP: 950, Status: VariantBackordered}, {Units: 90}},
	})
	require.NoError(t, err)
	shown := b.get("/catalog/products/"+product.ID).object(200, "product")
	assert.Equal(t, "available", shown["status"], "one of two can be bought")
	assert.Equal(t, 2.0, shown["variant_count"])
	assert.Equal(t, "Kelp", event.decode(t)["name"])
	packs := shown["variants"].([]any)
	assert.Equal(t, []any{"9.50", "19.99"}, []any{packs[0].(map[string]any)["msrp"], packs[1].(map[string]any)["msrp"]})
	assert.Equal(t, []any{true, false}, []any{packs[0].(map[string]any)["primary"], packs[1].(map[string]any)["primary"]})
	assert.Equal(t, []any{"n/a", "In Stock"}, []any{packs[0].(map[string]any)["availability"], packs[1].(map[string]any)["availability"]})

	status := func() any { return b.get("/catalog/products/"+product.ID).ok(200, "product", "status") }
	for _, c := range []struct{ first, second, want string }{
		{VariantBackordered, VariantUnavailable, "backordered"}, {VariantDiscontinued, VariantUnavailable, "unavailable"},
		{"vendor backorder", VariantDiscontinued, "unavailable"}, {VariantUnavailable, VariantAvailable, "available"}, {VariantBackordered, VariantBackordered, "backordered"},
	} {
		for i, s := range []string{c.first, c.second} {
			changed, e, err := p.UpdateVariant(product.VariantIDs[i], VariantChange{Status: &s})
			require.NoError(t, err)
			assert.Equal(t, s, changed.Status)
			assert.Equal(t, ProductUpdated, e.Type)
		}
		assert.Equal(t, c.want, status(), "%+v", c)
	}
	_, _, err = p.UpdateProduct(product.ID, ProductChange{Name: new("Kelp Plus"), Dosage: &Dosage{Amount: "2"}})
	require.NoError(t, err)
	_, e, err := p.DescribeProduct(product.ID, "")
	require.NoError(t, err)
	assert.Equal(t, ProductDescriptionUpdated, e.Type)
	shown = b.get("/catalog/products/"+product.ID).object(200, "product")
	assert.Equal(t, "Kelp Plus", shown["name"])
	assert.Nil(t, shown["description_html"])
	assert.Equal(t, "2", shown["dosage"].(map[string]any)["recommended_amount"])
	got, found := p.Product(product.ID)
	require.True(t, found)
	assert.Equal(t, "Kelp Plus", got.Name)
}

// A plan's dates: when it was made, changed, and told to the patient.
func TestPlanDates(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	p := b.fake.Platform()
	plan, _, err := p.CreatePlan(p.Patients()[0].ID, NewPlan{Draft: true})
	require.NoError(t, err)
	assert.True(t, plan.AvailableAt.IsZero())
	made := plan.CreatedAt
	b.fake.Clock().Advance(24 * time.Hour)
	b.token = b.fake.IssueToken(User{}).AccessToken
	plan, _, err = p.ActivatePlan(plan.ID)
	require.NoError(t, err)
	shown := b.get("/clinic/treatment_plans/"+plan.ID).object(200, "treatment_plan")
	assert.Equal(t, "2026-03-03", shown["available_at"])
	assert.Equal(t, stamp(made), shown["created_at"])
	assert.Equal(t, stamp(made.Add(24*time.Hour)), shown["updated_at"])
	b.fake.Clock().Advance(time.Hour)
	plan, _, err = p.CancelPlan(plan.ID)
	require.NoError(t, err)
	assert.Empty(t, plan.Recommendations)
	shown = b.get("/clinic/treatment_plans/"+plan.ID).object(200, "treatment_plan")
	assert.Equal(t, stamp(made.Add(25*time.Hour)), shown["updated_at"])
	assert.Equal(t, "2026-03-03", shown["available_at"], "that it was told stays true")
}
