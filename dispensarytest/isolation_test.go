package dispensarytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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
