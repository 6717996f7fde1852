package dispensarytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// twoClinics returns a platform of two clinics. second is the browser of the first
// practitioner of the second clinic.
func twoClinics(t *testing.T, opts ...Option) (first, second *browser) {
	first = start(t, append([]Option{WithInMemory(), WithClock(frozen()), WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 2, Patients: 8, Plans: 8, Orders: 8}})}, opts...)...)
	return first, first.of(first.fake.Clinics.All()[1])
}

// of returns the browser with the token of a clinic's first practitioner.
func (b *browser) of(clinic model.Clinic) *browser {
	b.t.Helper()
	for _, u := range b.fake.Users() {
		if u.ClinicID == clinic.ID {
			other := *b
			other.token = b.fake.Tokens.Issue(u).AccessToken
			return &other
		}
	}
	require.Fail(b.t, "the clinic has no users")
	return nil
}

// People act in their own clinic by default.
func TestPeopleActInOwnClinic(t *testing.T) {
	t.Parallel()
	_, second := twoClinics(t)
	p, clinic := second.fake, second.fake.Clinics.All()[1]
	patient, event, err := p.Patients.Create(model.PatientCreate{ClinicID: clinic.ID})
	require.NoError(t, err)
	assert.Equal(t, clinic.ID, patient.ClinicID)
	assert.Equal(t, clinic.ID, event.ClinicID)
	second.get("/clinic/patients/" + patient.ID).ok(200)
	_, _, err = p.Patients.Create(model.PatientCreate{ClinicID: "x"})
	require.ErrorContains(t, err, "no clinic has the id")

	plan, _, err := p.Plans.Create(patient.ID, model.PlanCreate{})
	require.NoError(t, err)
	assert.Equal(t, clinic.ID, plan.ClinicID)
	second.get("/clinic/practitioners/" + plan.PractitionerID).ok(200)

	keys := second.fake.ClinicKeys(clinic.ID)
	require.Len(t, keys, 1)
	assert.NotEqual(t, second.fake.ClinicKey(), keys[0])
	assert.Len(t, second.fake.ClinicKeys(), 2)
	second.key = keys[0]
	second.get("/clinic").ok(200)
}

// The pages behind a clinic's links show and accept only its own people.
func TestPagesShowPeopleOfClinic(t *testing.T) {
	t.Parallel()
	first, second := twoClinics(t)
	world := first.fake
	other := world.Patients.All()[0]
	require.Equal(t, world.Clinics.All()[0].ID, other.ClinicID)
	var ours model.Patient
	var practitioner, stranger model.Practitioner
	for _, p := range world.Patients.All() {
		if p.ClinicID == world.Clinics.All()[1].ID {
			ours = p
		}
	}
	for _, p := range world.Practitioners.All() {
		if p.ClinicID == ours.ClinicID {
			practitioner = p
		} else {
			stranger = p
		}
	}

	draft := second.send("POST", "/clinic/dynamic_links/treatment_plans", map[string]any{"treatment_plan": map[string]any{"practitioner_id": practitioner.ID}})
	page := second.visit(draft.ok(200, "dynamic_links", "redirect_url").(string)).sees(200, ours.Email)
	assert.NotContains(t, page.page.text, other.Email)
	page.press("save", url.Values{"patient": {other.Email}}).sees(422, "No patient has the e-mail address")
	page.press("save", url.Values{"patient": {ours.Email}}).sees(200, "was saved")

	page = second.visit(second.get("/clinic/dynamic_links/treatment_plans").ok(200, "redirect_url").(string)).sees(200, ours.Email, practitioner.LastName)
	assert.NotContains(t, page.page.text, other.Email)
	assert.NotContains(t, page.page.text, stranger.ID)
	page = page.add(world.Products.All()[0].Name)
	page.press("save", url.Values{"patient": {other.Email}}).sees(422, "No patient has the e-mail address")
	page.press("save", url.Values{"patient": {ours.Email}, "practitioner": {stranger.ID}}).sees(422, "No practitioner")
	page.press("save", url.Values{"patient": {ours.Email}, "practitioner": {practitioner.ID}}).sees(200, "was saved")
	plans := world.Plans.All()
	assert.Equal(t, ours.ClinicID, plans[len(plans)-1].ClinicID)
	second.visit(first.fake.origin+"/plans/new?clinic=x").sees(404, "no such clinic")
}

// A brand can be open to one clinic and closed to another.
func TestRestrictedBrandsNeedInvitation(t *testing.T) {
	t.Parallel()
	first, second := twoClinics(t)
	var closed store.Brand
	for _, b := range brandsOf(first.fake) {
		if b.Restricted {
			closed = b
		}
	}
	assert.Equal(t, []string{first.fake.Clinics.All()[1].ID}, closed.ClinicIDs)
	for _, c := range []struct {
		b    *browser
		open bool
	}{{first, false}, {second, true}} {
		assert.Equal(t, c.open, slices.Contains(c.b.get("/catalog/brands?clinic_permitted=true&page[size]=100").column("brands", "id"), any(closed.ID)))
		assert.Equal(t, c.open, len(c.b.get("/catalog/search/products?brand_id="+closed.ID).column("products", "id")) > 0)
		assert.Contains(t, c.b.get("/catalog/brands?page[size]=100").column("brands", "id"), closed.ID)
	}
}

// Each clinic has its own categories.
func TestClinicsHaveOwnCategories(t *testing.T) {
	t.Parallel()
	first, second := twoClinics(t)
	ours := second.get("/clinic/categories").column("categories", "id")
	require.NotEmpty(t, ours)
	for _, id := range first.get("/clinic/categories").column("categories", "id") {
		assert.NotContains(t, ours, id)
		second.get("/clinic/categories/"+id.(string)).rejected(404, "Not Found")
		second.get("/clinic/categories/"+id.(string)+"/products").rejected(404, "Not Found")
	}
	for _, id := range ours {
		listed := second.get("/clinic/categories/"+id.(string)+"/products?page[size]=100").column("products", "id")
		assert.NotEmpty(t, listed)
		assert.EqualValues(t, len(listed), second.get("/clinic/categories/"+id.(string)).ok(200, "category", "product_count"))
	}
}

// One statement of the API omits clinic_id from product events. Another includes it in every
// payload.
func TestProductEventClinicFollowsBehavior(t *testing.T) {
	t.Parallel()
	for reading, present := range map[string]bool{"absent": false, "present": true} {
		first, second := twoClinics(t, WithBehavior("product-event-clinic="+behavior.Variant(reading)))
		hook := first.hosts(nil)
		_, event, err := first.fake.Products.Create(model.ProductCreate{})
		require.NoError(t, err)
		require.NoError(t, first.wait(event))
		for i, clinic := range first.fake.Clinics.All() {
			require.Len(t, []*browser{first, second}[i].get("/webhooks/deliveries").column("webhook_deliveries", "id"), 1, "each clinic sees its own copy")
			assert.Equal(t, present, strings.Contains(hook.all()[i].body, `"clinic_id":"`+clinic.ID+`"`), reading)
			assert.Contains(t, []*browser{first, second}[i].get("/webhooks/deliveries").text, hook.all()[i].body[1:len(hook.all()[i].body)-2], "the log shows the sent body")
		}
		assert.NotContains(t, first.get("/events/"+event.ID).ok(200, "event"), "clinic_id")
	}
}

// bytesOf encodes every row of a world, including the values behind pointers.
func bytesOf(w *store.World) string {
	encoded, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// upset changes as much of a platform as possible.
func upset(t *testing.T, b *browser, n int) {
	jane, plan, product := b.fake.Patients.All()[0], b.fake.Plans.All()[0], b.fake.Products.All()[0]
	made := b.send("POST", "/clinic/patients", someone()).object(201, "patient")
	b.send("PATCH", "/clinic/patients/"+jane.ID, map[string]any{"email": "jane.moved@example.org", "first_name": fmt.Sprint("Jane ", n)}).ok(200)
	b.send("PATCH", "/clinic/practitioners/"+b.fake.Users()[0].ID, map[string]any{"email": "moved@example.org"}).ok(200)
	b.send("POST", b.plansOf(made["id"].(string)), b.draft(nil)).ok(201)
	b.send("PATCH", "/clinic/treatment_plans/"+plan.ID+"/cancel", nil).ok(200)
	_, _, err := b.fake.Products.Update(product.ID, model.ProductUpdate{Name: new(fmt.Sprint("Product ", n))})
	require.NoError(t, err)
	_, _, err = b.fake.Products.UpdateVariant(product.VariantIDs[0], model.VariantUpdate{Status: new(model.VariantDiscontinued)})
	require.NoError(t, err)
	_, _, err = b.fake.Products.Create(model.ProductCreate{})
	require.NoError(t, err)
	_, event, err := b.fake.Orders.Place(jane.ID, model.OrderCreate{})
	require.NoError(t, err)
	require.NoError(t, b.wait(event))
	_, err = b.fake.Orders.Refund(b.fake.Orders.All()[0].ID, 100)
	require.NoError(t, err)
	_, err = b.fake.Clinics.RevokeKey(b.fake.ClinicKey())
	require.NoError(t, err)
}

// A hundred parallel tests each use their own platform, on every kind of transport. No
// platform sees changes of another one, and their common initial world keeps its bytes.
func TestHundredPlatformsAreIsolated(t *testing.T) {
	before := bytesOf(store.DefaultUS()) + bytesOf(store.DefaultCanada())
	t.Run("all", func(t *testing.T) {
		for n := range 100 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				opts := [][]Option{{WithInMemory()}, {WithEnvironment(api.CanadaSandbox), WithInMemory()}, {}, {WithTLS()}, {WithInMemory(), WithClock(frozen())}}[n%5]
				b := start(t, opts...)
				hook := b.hosts(nil, model.EventOrderPlaced)
				upset(t, b, n)
				assert.Equal(t, fmt.Sprint("Jane ", n), b.fake.Patients.All()[0].FirstName)
				assert.Equal(t, fmt.Sprint("Product ", n), b.fake.Products.All()[0].Name)
				assert.Len(t, b.fake.Patients.All(), 6)
				assert.Len(t, b.fake.Plans.All(), 4)
				assert.Len(t, b.fake.Products.All(), 45)
				assert.Len(t, b.fake.Orders.All(), 4)
				assert.Len(t, b.fake.Events(), 6)
				assert.Len(t, hook.all(), 1)
				assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
				b.fake.Journal.CheckNoUnexpected(t)
			})
		}
	})
	assert.Equal(t, before, bytesOf(store.DefaultUS())+bytesOf(store.DefaultCanada()))
	fresh := New(t, WithInMemory())
	assert.Equal(t, "Jane", fresh.Patients.All()[0].FirstName)
	assert.Len(t, fresh.Products.All(), 44)
}

// Results are copies: changing them does not change the platform.
func TestResultsAreCopies(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	_, event, err := fake.Orders.Place(fake.Patients.All()[0].ID, model.OrderCreate{PlanIDs: []string{fake.Plans.All()[0].ID}})
	require.NoError(t, err)
	before := bytesOf(fake.store.World)
	for _, plan := range fake.Plans.All() {
		plan.Recommendations[0].Dosage.Amount, plan.Recommendations[0].VariantID = "all of it", "x"
	}
	for _, product := range fake.Products.All() {
		product.VariantIDs[0], product.IngredientIDs[0], product.CategoryIDs[0] = "x", "x", "x"
	}
	for _, order := range fake.Orders.All() {
		order.Lines[0].Quantity, order.PlanIDs[0] = 99, "x"
	}
	event.Data[0] = '!'
	fake.Events()[0].Data[0] = '!'
	fake.Application().Scopes[0] = "everything"
	fake.Users()[0].Email = "x"
	assert.Equal(t, before, bytesOf(fake.store.World))
	assert.Equal(t, "catalog:read", fake.Application().Scopes[0])
}

// Arguments are copied as well.
func TestArgumentsAreCopied(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	lines := []model.Recommendation{{VariantID: fake.Products.All()[0].VariantIDs[0], UnitsToPurchase: 1, Dosage: &model.Dosage{Amount: "1"}}}
	plan, _, err := fake.Plans.Create(fake.Patients.All()[0].ID, model.PlanCreate{Recommendations: lines})
	require.NoError(t, err)
	bought := []model.Line{{VariantID: lines[0].VariantID, Quantity: 2}}
	order, _, err := fake.Orders.Place(fake.Patients.All()[0].ID, model.OrderCreate{Lines: bought})
	require.NoError(t, err)
	lines[0].UnitsToPurchase, lines[0].Dosage.Amount, bought[0].Quantity = 9, "9", 9
	kept, _ := fake.Plans.Get(plan.ID)
	assert.Equal(t, "1", kept.Recommendations[0].Dosage.Amount)
	assert.Equal(t, 1, kept.Recommendations[0].UnitsToPurchase)
	stored, _ := fake.Orders.Get(order.ID)
	assert.Equal(t, 2, stored.Lines[0].Quantity)
}

// Platforms may share a clock. Each makes its own deliveries, and closing one cancels only its
// own.
func TestPlatformsShareClock(t *testing.T) {
	t.Parallel()
	clock := frozen()
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	us := New(t, WithInMemory(), WithClock(clock), WithBehavior(behavior.DeliveryConditionsOff))
	ca, err := Start(WithInMemory(), WithClock(clock), WithBehavior(behavior.DeliveryConditionsOff), WithEnvironment(api.CanadaSandbox))
	require.NoError(t, err)
	for _, fake := range []*Server{us, ca} {
		activate(t, fake)
		require.NoError(t, fake.Webhooks.RegisterHandler(down))
		_, _, err := fake.Patients.Create(model.PatientCreate{})
		require.NoError(t, err)
	}
	clock.Advance(time.Minute)
	assert.Len(t, us.Webhooks.Deliveries()[0].Attempts, 2)
	assert.Len(t, ca.Webhooks.Deliveries()[0].Attempts, 2)
	require.NoError(t, ca.Close())
	clock.Advance(5 * time.Minute)
	assert.Len(t, us.Webhooks.Deliveries()[0].Attempts, 3)
	assert.Len(t, ca.Webhooks.Deliveries()[0].Attempts, 2)
}
