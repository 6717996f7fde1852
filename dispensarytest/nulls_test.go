package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// nullable are the fields of a variant that the API lists as "or null".
var nullable = []string{"units", "unit_of_measure", "upc", "supplier_sku", "status"}

// An integration that fails on a null must encounter one in a test. For products on sale, only
// non-primary variants contain nulls.
func TestWorldContainsEveryNull(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]model.WorldSize{"small": {}, "large": {Products: 200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, WithInMemory(), WithTuning(Tuning{WorldSize: size}))
			nulls, values, listed := map[string]int{}, map[string]int{}, map[string]int{}
			for _, p := range b.fake.Products.All() {
				product := b.get("/catalog/products/"+p.ID).object(200, "product")
				count(product, "description_html", nulls, values)
				onSale := product["status"] != model.VariantUnavailable
				for _, v := range product["variants"].([]any) {
					v := v.(map[string]any)
					for _, field := range nullable {
						count(v, field, nulls, values)
						if v["primary"] == true && v[field] == nil {
							listed[field]++
							assert.False(t, onSale, "%s: %s is null", p.Name, field)
						}
					}
				}
			}
			for _, field := range append(nullable, "description_html") {
				assert.Positive(t, nulls[field], field)
				assert.Greater(t, values[field], nulls[field], field)
			}
			for _, field := range nullable {
				assert.Positive(t, listed[field], "no list contains a null: %s", field)
			}
			assert.Len(t, b.get("/catalog/brands?available=true").column("brands", "id"), len(brandsOf(b.fake))-1)
		})
	}
}

func count(object map[string]any, field string, nulls, values map[string]int) {
	if value, there := object[field]; there && value == nil {
		nulls[field]++
	} else if there {
		values[field]++
	}
}

func TestUpdateVariantClearsFields(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	product := b.fake.Products.All()[0]
	id := product.VariantIDs[0]
	change := model.VariantUpdate{Units: new(0), UnitOfMeasure: new(""), UPC: new(""), SupplierSKU: new(""), Status: new("")}
	_, event, err := b.fake.Products.UpdateVariant(id, change)
	require.NoError(t, err)
	assert.Equal(t, model.EventProductUpdated, event.Type)
	variant := b.get("/catalog/variants/"+id).object(200, "variant")
	for _, field := range nullable {
		assert.Contains(t, variant, field)
		assert.Nil(t, variant[field], field)
	}
	assert.Equal(t, "n/a", variant["availability"])

	change = model.VariantUpdate{Units: new(30), UnitOfMeasure: new("drops"), UPC: new("850000010036"), SupplierSKU: new("X1"), Status: new(model.VariantAvailable)}
	_, _, err = b.fake.Products.UpdateVariant(id, change)
	require.NoError(t, err)
	variant = b.get("/catalog/variants/"+id).object(200, "variant")
	assert.EqualValues(t, 30, variant["units"])
	assert.Equal(t, []any{"drops", "850000010036", "X1", "available"}, []any{variant["unit_of_measure"], variant["upc"], variant["supplier_sku"], variant["status"]})

	_, _, err = b.fake.Products.Describe(product.ID, "")
	require.NoError(t, err)
	assert.Nil(t, b.get("/catalog/products/"+product.ID).object(200, "product")["description_html"])
}

// The platform reproduces the API's irregular formats, and only in the same places.
func TestFieldFormatsMatchAPI(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := exemplars(t, b)
	jane := b.get(all["patients.get"].path).object(200, "patient")
	link := b.get(all["dynamic_links.get"].path).object(200, "dynamic_links", "patient")
	assert.Equal(t, true, jane["text_message_notification"])
	assert.EqualValues(t, 1, link["text_message_notification"], "a number in place of a boolean")

	order := b.get(all["orders.get"].path).object(200, "order")
	for _, total := range []string{"msrp_total", "item_total", "payment_total"} {
		assert.Regexp(t, `^\d+\.\d\d$`, order[total], "a decimal string")
	}
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}-05:00$`, order["completed_at"], "the time has an offset")
	plan := b.get(all["treatment_plans.get"].path).object(200, "treatment_plan")
	assert.Regexp(t, `^\d{4}-\d\d-\d\d$`, plan["available_at"], "a date")
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, plan["created_at"], "in UTC")

	// A dosage has different field names in a plan and in an event.
	_, event, err := b.fake.Plans.Update(b.fake.Plans.All()[0].ID, model.PlanUpdate{})
	assert.NoError(t, err)
	inEvent := b.get("/events/"+event.ID).ok(200, "event", "data", "treatment_plan", "recommendations").([]any)[0].(map[string]any)["dosage"].(map[string]any)
	inPlan := plan["recommendations"].([]any)[0].(map[string]any)["dosage"].(map[string]any)
	for name, other := range map[string]string{"amount": "recommended_amount", "frequency": "recommended_frequency", "duration": "recommended_duration", "format": "format"} {
		assert.Equal(t, inPlan[name], inEvent[other], name)
		assert.Contains(t, inEvent, other)
	}
}
