package dispensarytest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// Every action rejects unknown ids, invalid values and forbidden states. The error contains
// the reason, and the action changes nothing.
func TestActionsRejectInvalidInput(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	activate(t, fake)
	jane, sam := fake.Patients.All()[0], fake.Patients.All()[1]
	active, variant := fake.Plans.All()[0], fake.Products.All()[0].VariantIDs[0]
	draft, _, err := fake.Plans.Create(jane.ID, model.PlanCreate{Draft: true})
	require.NoError(t, err)
	gone, _, err := fake.Plans.Create(jane.ID, model.PlanCreate{})
	require.NoError(t, err)
	_, _, err = fake.Plans.Cancel(gone.ID)
	require.NoError(t, err)
	refunded, err := fake.Orders.Refund(fake.Orders.All()[2].ID, 0)
	require.NoError(t, err)
	one := func(_, _ any, err error) error { return err }
	two := func(_ any, err error) error { return err }
	line := []model.Recommendation{{VariantID: variant, UnitsToPurchase: 1}}
	before, events := bytesOf(fake.store.World), len(fake.Events())
	for _, c := range []struct {
		action string
		kind   error
		err    error
		says   string
	}{
		{"CreatePatient", model.ErrValidation, one(fake.Patients.Create(model.PatientCreate{Email: jane.Email})), "email has already been taken"},
		{"CreatePatient", model.ErrValidation, one(fake.Patients.Create(model.PatientCreate{Email: "nonsense"})), "e-mail"},
		{"CreatePatient", model.ErrValidation, one(fake.Patients.Create(model.PatientCreate{DateOfBirth: "1.1.1990"})), "date"},
		{"CreatePatient", model.ErrValidation, one(fake.Patients.Create(model.PatientCreate{Gender: "Female"})), "gender must be one of"},
		{"CreatePatient", model.ErrValidation, one(fake.Patients.Create(model.PatientCreate{MobileNumber: "555"})), "international"},
		{"UpdatePatient", model.ErrNotFound, one(fake.Patients.Update("x", model.PatientUpdate{})), "no patient"},
		{"UpdatePatient", model.ErrValidation, one(fake.Patients.Update(jane.ID, model.PatientUpdate{Email: &sam.Email})), "email has already been taken"},
		{"UpdatePatient", model.ErrValidation, one(fake.Patients.Update(jane.ID, model.PatientUpdate{LastName: new("")})), "last_name can't be blank"},
		{"CreatePlan", model.ErrNotFound, one(fake.Plans.Create("x", model.PlanCreate{})), "no patient"},
		{"CreatePlan", model.ErrNotFound, one(fake.Plans.Create(jane.ID, model.PlanCreate{PractitionerID: "x"})), "no practitioner"},
		{"CreatePlan", model.ErrNotFound, one(fake.Plans.Create(jane.ID, model.PlanCreate{Recommendations: []model.Recommendation{{VariantID: "x", UnitsToPurchase: 1}}})), "no variant"},
		{"CreatePlan", model.ErrValidation, one(fake.Plans.Create(jane.ID, model.PlanCreate{Recommendations: []model.Recommendation{{VariantID: variant}}})), "number of units"},
		{"ActivatePlan", model.ErrNotFound, one(fake.Plans.Activate("x")), "no treatment plan"},
		{"ActivatePlan", model.ErrState, one(fake.Plans.Activate(active.ID)), "is active"},
		{"ActivatePlan", model.ErrState, one(fake.Plans.Activate(gone.ID)), "is cancelled"},
		{"UpdatePlan", model.ErrState, one(fake.Plans.Update(gone.ID, model.PlanUpdate{})), "is cancelled"},
		{"UpdatePlan", model.ErrValidation, one(fake.Plans.Update(active.ID, model.PlanUpdate{Recommendations: []model.Recommendation{{VariantID: variant, UnitsToPurchase: -1}}})), "units"},
		{"UpdateRecommendation", model.ErrNotFound, one(fake.Plans.UpdateRecommendation(draft.ID, model.Recommendation{VariantID: "x", UnitsToPurchase: 1})), "recommended variant"},
		{"UpdateRecommendation", model.ErrState, one(fake.Plans.UpdateRecommendation(gone.ID, line[0])), "is cancelled"},
		{"CancelPlan", model.ErrState, one(fake.Plans.Cancel(draft.ID)), "is draft"},
		{"CancelPlan", model.ErrState, one(fake.Plans.Cancel(gone.ID)), "is cancelled"},
		{"PlaceOrder", model.ErrNotFound, one(fake.Orders.Place("x", model.OrderCreate{})), "no patient"},
		{"PlaceOrder", model.ErrNotFound, one(fake.Orders.Place(jane.ID, model.OrderCreate{PlanIDs: []string{"x"}})), "no treatment plan"},
		{"PlaceOrder", model.ErrValidation, one(fake.Orders.Place(sam.ID, model.OrderCreate{PlanIDs: []string{active.ID}})), "another patient"},
		{"PlaceOrder", model.ErrState, one(fake.Orders.Place(jane.ID, model.OrderCreate{PlanIDs: []string{draft.ID}})), "is draft"},
		{"PlaceOrder", model.ErrNotFound, one(fake.Orders.Place(jane.ID, model.OrderCreate{Lines: []model.Line{{VariantID: "x", Quantity: 1}}})), "no variant"},
		{"PlaceOrder", model.ErrValidation, one(fake.Orders.Place(jane.ID, model.OrderCreate{Lines: []model.Line{{VariantID: variant}}})), "quantity"},
		{"RefundOrder", model.ErrNotFound, two(fake.Orders.Refund("x", 0)), "no order"},
		{"RefundOrder", model.ErrState, two(fake.Orders.Refund(refunded.ID, 0)), "already refunded"},
		{"RefundOrder", model.ErrValidation, two(fake.Orders.Refund(fake.Orders.All()[0].ID, -1)), "cannot be refunded"},
		{"RefundOrder", model.ErrValidation, two(fake.Orders.Refund(fake.Orders.All()[0].ID, 1_000_000)), "cannot be refunded"},
		{"CreateProduct", model.ErrNotFound, one(fake.Products.Create(model.ProductCreate{BrandID: "x"})), "no brand"},
		{"CreateProduct", model.ErrValidation, one(fake.Products.Create(model.ProductCreate{Variants: []model.VariantCreate{{Status: "sold"}}})), "status must be one of"},
		{"UpdateProduct", model.ErrNotFound, one(fake.Products.Update("x", model.ProductUpdate{})), "no product"},
		{"UpdateProduct", model.ErrValidation, one(fake.Products.Update(fake.Products.All()[0].ID, model.ProductUpdate{Name: new("")})), "needs a name"},
		{"DescribeProduct", model.ErrNotFound, one(fake.Products.Describe("x", "")), "no product"},
		{"UpdateVariant", model.ErrNotFound, one(fake.Products.UpdateVariant("x", model.VariantUpdate{})), "no variant"},
		{"UpdateVariant", model.ErrValidation, one(fake.Products.UpdateVariant(variant, model.VariantUpdate{Status: new("sold")})), "status must be one of"},
		{"UpdateVariant", model.ErrValidation, one(fake.Products.UpdateVariant(variant, model.VariantUpdate{Units: new(-1)})), "number of units"},
		{"UpdateVariant", model.ErrValidation, one(fake.Products.UpdateVariant(variant, model.VariantUpdate{MSRP: new(model.Cents(-1))})), "price"},
		{"RevokeClinicKey", model.ErrNotFound, two(fake.Clinics.RevokeKey("x")), "no clinic key"},
		{"ActivateClinicKey", model.ErrNotFound, two(fake.Clinics.ActivateKey("x")), "no clinic key"},
		{"ActivateClinicKey", model.ErrState, two(fake.Clinics.ActivateKey(fake.ClinicKey())), "already active"},
	} {
		require.ErrorIs(t, c.err, c.kind, c.action)
		var typed *store.ActionError
		require.ErrorAs(t, c.err, &typed)
		assert.Equal(t, c.action, typed.Action)
		assert.Contains(t, c.err.Error(), "dispensarytest: "+c.action+": "+c.kind.Error()+": ")
		assert.Contains(t, c.err.Error(), c.says)
		for _, other := range []error{model.ErrNotFound, model.ErrValidation, model.ErrState} {
			assert.Equal(t, other == c.kind, errors.Is(c.err, other))
		}
	}
	assert.Equal(t, before, bytesOf(fake.store.World))
	assert.Len(t, fake.Events(), events)
}

func TestPatientsRegisterAndEdit(t *testing.T) {
	t.Parallel()
	p := New(t, WithInMemory())
	made, _, err := p.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	assert.Equal(t, "newcomer-6@example.org", made.Email, "empty fields are made up with reserved domains")
	assert.True(t, made.Welcomed)
	full := model.PatientCreate{FirstName: "Ada", LastName: "Lowe", Email: "ada@example.org", DateOfBirth: "1990-12-10", Gender: store.GenderFemale, MobileNumber: "+15035550142"}
	ada, _, err := p.Patients.Create(full)
	require.NoError(t, err)
	got, found := p.Patients.Get(ada.ID)
	require.True(t, found)
	assert.Equal(t, ada, got)
	edited, event, err := p.Patients.Update(ada.ID, model.PatientUpdate{DateOfBirth: new(""), MobileNumber: new("+15035550143"), TextNotification: new(true)})
	require.NoError(t, err)
	assert.Empty(t, edited.DateOfBirth)
	assert.True(t, edited.TextNotification)
	assert.Equal(t, "Ada", edited.FirstName)
	data := dataOf(t, event)["patient"].(map[string]any)
	assert.Nil(t, data["date_of_birth"])
	assert.Equal(t, "+15035550143", data["mobile_number"])
	_, found = p.Patients.Get("x")
	assert.False(t, found)
}

func TestOrderTotalsAddUp(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	sam := b.fake.Patients.All()[1] // 5 percent, and the clinic's 10
	one, two := b.fake.Products.All()[0].VariantIDs[0], b.fake.Products.All()[2].VariantIDs[1]
	first, _ := b.fake.Variants.Get(one)
	second, _ := b.fake.Variants.Get(two)
	order, event, err := b.fake.Orders.Place(sam.ID, model.OrderCreate{Lines: []model.Line{{VariantID: one, Quantity: 2}, {VariantID: two, Quantity: 1}}})
	require.NoError(t, err)
	assert.Equal(t, first.MSRP*2+second.MSRP, order.MSRPTotal)
	assert.Equal(t, order.MSRPTotal-(order.MSRPTotal*15+50)/100, order.ItemTotal)
	assert.Equal(t, order.ItemTotal+store.Shipping, order.PaymentTotal)
	shown := b.get("/clinic/orders/"+order.ID).object(200, "order")
	assert.Equal(t, order.MSRPTotal.String(), shown["msrp_total"])
	assert.Equal(t, []any{map[string]any{"variant_id": one, "quantity": 2.0}, map[string]any{"variant_id": two, "quantity": 1.0}}, shown["line_items"])
	assert.Equal(t, shown, dataOf(t, event), "the event contains the order as in the API")

	part, err := b.fake.Orders.Refund(order.ID, 100)
	require.NoError(t, err)
	assert.Equal(t, order.PaymentTotal-100, part.PaymentTotal)
	rest, err := b.fake.Orders.Refund(order.ID, 0)
	require.NoError(t, err)
	assert.Zero(t, rest.PaymentTotal)
	assert.Equal(t, order.PaymentTotal, rest.Refunded)
	assert.Equal(t, order.ItemTotal, rest.ItemTotal, "only the payment goes down")
	assert.Equal(t, "0.00", b.get("/clinic/orders/"+order.ID).ok(200, "order", "payment_total"))
	assert.Len(t, b.fake.Events(), 1, "a refund emits no event")
}

func TestCatalogActionsEmitEvents(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	product, event, err := b.fake.Products.Create(model.ProductCreate{
		Name: "Kelp", BrandID: brandsOf(b.fake)[1].ID, DescriptionHTML: "<p>Sea.</p>",
		Variants: []model.VariantCreate{{Units: 30, UnitOfMeasure: "tablets", MSRP: 950, Status: model.VariantBackordered}, {Units: 90}},
	})
	require.NoError(t, err)
	shown := b.get("/catalog/products/"+product.ID).object(200, "product")
	assert.Equal(t, "available", shown["status"], "one of two can be bought")
	assert.Equal(t, 2.0, shown["variant_count"])
	assert.Equal(t, "Kelp", dataOf(t, event)["name"])
	packs := shown["variants"].([]any)
	assert.Equal(t, []any{"9.50", "19.99"}, []any{packs[0].(map[string]any)["msrp"], packs[1].(map[string]any)["msrp"]})
	assert.Equal(t, []any{true, false}, []any{packs[0].(map[string]any)["primary"], packs[1].(map[string]any)["primary"]})
	assert.Equal(t, []any{"n/a", "In Stock"}, []any{packs[0].(map[string]any)["availability"], packs[1].(map[string]any)["availability"]})

	status := func() any { return b.get("/catalog/products/"+product.ID).ok(200, "product", "status") }
	for _, c := range []struct{ first, second, want string }{
		{model.VariantBackordered, model.VariantUnavailable, "backordered"}, {model.VariantDiscontinued, model.VariantUnavailable, "unavailable"},
		{"vendor backorder", model.VariantDiscontinued, "unavailable"}, {model.VariantUnavailable, model.VariantAvailable, "available"}, {model.VariantBackordered, model.VariantBackordered, "backordered"},
	} {
		for i, s := range []string{c.first, c.second} {
			changed, e, err := b.fake.Products.UpdateVariant(product.VariantIDs[i], model.VariantUpdate{Status: &s})
			require.NoError(t, err)
			assert.Equal(t, s, changed.Status)
			assert.Equal(t, model.EventProductUpdated, e.Type)
		}
		assert.Equal(t, c.want, status(), "%+v", c)
	}
	_, _, err = b.fake.Products.Update(product.ID, model.ProductUpdate{Name: new("Kelp Plus"), Dosage: &model.Dosage{Amount: "2"}})
	require.NoError(t, err)
	_, e, err := b.fake.Products.Describe(product.ID, "")
	require.NoError(t, err)
	assert.Equal(t, model.EventProductDescriptionUpdated, e.Type)
	shown = b.get("/catalog/products/"+product.ID).object(200, "product")
	assert.Equal(t, "Kelp Plus", shown["name"])
	assert.Nil(t, shown["description_html"])
	assert.Equal(t, "2", shown["dosage"].(map[string]any)["recommended_amount"])
	got, found := b.fake.Products.Get(product.ID)
	require.True(t, found)
	assert.Equal(t, "Kelp Plus", got.Name)
}

func TestOverviewReturnsLatestRows(t *testing.T) {
	t.Parallel()
	p := start(t).fake
	_, _, err := p.Orders.Place(p.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	_, _, err = p.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)

	o := p.Overview(2)
	assert.Equal(t, lastTwo(p.Patients.All()), o.Patients)
	assert.Equal(t, lastTwo(p.Plans.All()), o.Plans)
	assert.Equal(t, lastTwo(p.Orders.All()), o.Orders)
	assert.Equal(t, lastTwo(p.Products.All()), o.Products)
	assert.Equal(t, lastTwo(p.Events()), o.Events)
	assert.Equal(t, []int{len(p.Patients.All()), len(p.Plans.All()), len(p.Orders.All()), len(p.Products.All()), 2},
		[]int{o.Totals.Patients, o.Totals.Plans, o.Totals.Orders, o.Totals.Products, o.Totals.Events})

	o.Orders[0].Lines[0].Quantity = 99
	assert.NotEqual(t, 99, p.Overview(1).Orders[0].Lines[0].Quantity, "it is a copy")
	assert.Len(t, p.Overview(100).Events, 2, "it returns all events")
	assert.Empty(t, p.Overview(0).Events)
}

func lastTwo[T any](rows []T) []T {
	rows = rows[len(rows)-2:]
	slices.Reverse(rows)
	return rows
}

func TestSiteIsSandboxOfRegion(t *testing.T) {
	t.Parallel()
	for _, want := range []api.Environment{api.USSandbox, api.CanadaSandbox} {
		for _, opt := range []Option{WithInMemory(), WithTLS(), WithTuning(Tuning{Addr: "127.0.0.1:0"})} {
			fake := New(t, WithEnvironment(want), opt)
			site := fake.Site()
			assert.Equal(t, want, site.Environment)
			assert.Equal(t, fake.Site().BaseURL, site.BaseURL)
			assert.Equal(t, fake.Site().AuthURL, site.AuthURL)
			require.NoError(t, site.Validate(), "the site is valid for a client")
			base, auth := environ.Variables(want)
			assert.Contains(t, fake.Variables(), base+"="+site.BaseURL)
			assert.Contains(t, fake.Variables(), auth+"="+site.AuthURL)
		}
	}
}

func TestClientAppliesOptions(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	client := fake.Client(model.User{}, dispensary.WithClinicKey(dispensary.NewSecret(fake.ClinicKey())))
	clinic, err := client.Clinic.Get(t.Context())
	require.NoError(t, err)
	assert.False(t, clinic.IntegrationActivatedAt.IsZero(), "the key was sent, and activated the integration")

	narrow := fake.Client(model.User{}, dispensary.WithTokenSource(fake.TokenSource(model.User{}, "catalog:read")))
	_, err = narrow.Clinic.Get(t.Context())
	require.ErrorIs(t, err, api.ErrForbidden)
	_, err = fake.Client(model.User{}, dispensary.WithUserAgent("two\nlines")).Clinic.Get(t.Context())
	require.ErrorIs(t, err, api.ErrArgument)
	require.ErrorIs(t, err, dispensary.ErrNotSent)
	require.ErrorContains(t, err, "UserAgent")
	assert.Panics(t, func() { fake.Client(model.User{ID: "nobody"}) })
}

func TestTokenSourceDoesNotRefresh(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory(), WithClock(frozen()))
	source := fake.TokenSource(model.User{})
	one, err := source.Token(context.Background())
	require.NoError(t, err)
	assert.Equal(t, fake.Site().Environment, one.Environment)
	assert.Equal(t, fake.Clock.Now().Add(tokens.TokenLifetime), one.ExpiresAt)
	fake.Tokens.InvalidateAll()
	two, err := source.Token(context.Background())
	require.NoError(t, err)
	assert.Equal(t, one, two)
	_, err = fake.Client(model.User{}, dispensary.WithTokenSource(source)).Clinic.Get(t.Context())
	assert.ErrorIs(t, err, api.ErrUnauthorized)
}
