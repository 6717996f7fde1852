package dispensarytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// shapes are the keys of every answer, as the API lists them: of the object
// itself, or of the items of a list.
var shapes = shapesOf(map[string]string{
	"dynamic_links.get dynamic_links.create": "redirect_url treatment_plan patient",
	"dynamic_links.new":                      "redirect_url",
	"allergens.list allergens.get ingredients.list ingredients.get supplement_types.list supplement_types.get third_party_certifications.list third_party_certifications.get categories.list": "id name",
	"brands.list brands.get":  "id name prefix status",
	"practitioner_types.list": "id code description",
	"products.list products.search products.similar categories.products": "id name status variant_count brand primary_variant",
	"products.get":                  "id name status variant_count brand description_html variants dosage custom_dosage",
	"variants.get":                  "id sku units unit_of_measure upc msrp supplier_sku status availability primary image_url_small image_url_medium image_url_large product",
	"clinic.get":                    "id name patient_count practitioner_count discount dispensary_url integration_id integration_activated_at",
	"addresses.list":                "id address1 address2 zipcode city state country",
	"categories.get":                "id name product_count",
	"orders.list_for_patient":       "id order_number completed_at msrp_total item_total payment_total variant_ids treatment_plan_ids",
	"orders.get":                    "id order_number completed_at msrp_total item_total payment_total treatment_plan_ids patient_id line_items",
	"orders.list":                   "id order_number completed_at msrp_total item_total payment_total variant_ids treatment_plan_ids patient_id",
	"patients.list patients.search": "id first_name last_name email",
	"patients.get patients.create patients.update":                                   "id first_name last_name email date_of_birth gender discount total_discount mobile_number text_message_notification metadata",
	"practitioners.list practitioners.get practitioners.create practitioners.update": "id first_name last_name email practitioner_type_id metadata",
	"staff.list staff.get staff.create staff.update":                                 "id first_name last_name email metadata",
	"protocols.get":        "id name current_state practitioner personal_message recommendations",
	"protocols.list":       "id name current_state ownership_type",
	"templates.get":        "id name current_state practitioner_id personal_message recommendations",
	"templates.list":       "id name current_state",
	"treatment_plans.list": "id state patient practitioner available_at created_at updated_at",
	"treatment_plans.create treatment_plans.get treatment_plans.update treatment_plans.cancel treatment_plans.activate": "id state patient practitioner available_at created_at updated_at invitation_url personal_message recommendations metadata",
	"treatment_plans.in_office_checkout": "url",
	"metadata.list":                      "id type data",
	"events.get":                         "id type created_at clinic_id data",
	"events.list_clinic_keys events.list_patients events.list_treatment_plans events.list_orders": "id type created_at clinic_id",
	"events.list_products":    "id type created_at",
	"webhook_deliveries.list": "id attempt_number attempted_at previous_attempt_at next_attempt_at successfully_delivered response_body response_header response_status response_ip_address response_errors event_payload",
})

// shapesOf gives each operation the keys that it has in common with others.
func shapesOf(common map[string]string) map[string]string {
	shapes := make(map[string]string)
	for ids, keys := range common {
		for id := range strings.FieldsSeq(ids) {
			shapes[id] = keys
		}
	}
	return shapes
}

func TestEveryAnswerHasItsShape(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	b.hosts(nil)
	all := exemplars(t, b)
	_, _, err := b.fake.Products.Describe(b.fake.Products.All()[0].ID, "<p>New.</p>")
	assert.NoError(t, err)
	_, err = b.fake.Clinics.RevokeKey(b.fake.ClinicKey())
	assert.NoError(t, err)
	_, err = b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	assert.NoError(t, err)
	_, event := b.place()
	assert.NoError(t, b.wait(event))
	_, _, err = b.fake.Plans.Update(b.fake.Plans.All()[0].ID, model.PlanChange{})
	assert.NoError(t, err)
	assert.Len(t, shapes, len(all))
	for _, e := range inOrder(all) {
		got := b.send(e.op.Method, e.path, e.body)
		var object any = got.ok(e.status)
		if e.op.Key != "" {
			object = got.ok(e.status, e.op.Key)
			assert.ElementsMatch(t, slices.DeleteFunc([]string{e.op.Key, "meta"}, func(k string) bool { return k == "meta" && !e.op.List }), keysOf(got.body), e.op.ID)
		}
		if e.op.List {
			meta := got.object(200, "meta")
			assert.ElementsMatch(t, []string{"current_page", "next_page", "prev_page", "total_pages", "total_count"}, keysOf(meta))
			items := object.([]any)
			if !assert.NotEmpty(t, items, e.op.ID) {
				continue
			}
			object = items[0]
		}
		assert.ElementsMatch(t, strings.Fields(shapes[e.op.ID]), keysOf(object), e.op.ID)
		assert.Equal(t, "application/json; charset=utf-8", got.header.Get("Content-Type"))
	}
}

// Nested objects have a shape, too.
func TestNestedShapes(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := exemplars(t, b)
	get := func(id string) any { return b.get(all[id].path).ok(200, all[id].op.Key) }
	inside := func(object any, path ...string) any {
		for _, key := range path {
			if list, isList := object.([]any); isList {
				object = list[0]
			}
			object = object.(map[string]any)[key]
		}
		if list, isList := object.([]any); isList {
			object = list[0]
		}
		return object
	}
	const variant = "id sku units unit_of_measure upc msrp supplier_sku status availability primary image_url_small image_url_medium image_url_large"
	for _, c := range []struct {
		op, path, keys string
	}{
		{"products.list", "brand", "id name prefix"},
		{"products.list", "primary_variant", variant},
		{"products.get", "variants", variant},
		{"products.get", "dosage", "recommended_amount recommended_frequency recommended_duration format additional_info"},
		{"products.get", "custom_dosage", "recommended_amount recommended_frequency recommended_duration format additional_info"},
		{"variants.get", "product", "id name brand"},
		{"variants.get", "product brand", "id name prefix"},
		{"orders.get", "line_items", "variant_id quantity"},
		{"patients.get", "metadata", "id"},
		{"practitioners.get", "metadata", "id"},
		{"staff.get", "metadata", "id"},
		{"protocols.get", "practitioner", "id"},
		{"protocols.get", "recommendations", "variant_id refill dosage_amount dosage_frequency dosage_duration dosage_permutations dosage_format quantity_recommended"},
		{"templates.get", "recommendations", "variant_id refill dosage_amount dosage_frequency dosage_duration dosage_permutations dosage_format quantity_recommended"},
		{"treatment_plans.get", "patient", "id"},
		{"treatment_plans.get", "practitioner", "id"},
		{"treatment_plans.get", "metadata", "id"},
		{"treatment_plans.get", "recommendations", "variant_id refill units_to_purchase dosage"},
		{"treatment_plans.get", "recommendations dosage", "amount frequency duration format additional_info"},
		{"dynamic_links.get", "treatment_plan", "id state available_at"},
		{"dynamic_links.get", "patient", strings.TrimSuffix(shapes["patients.get"], " metadata")},
		{"events.get", "data", "patient"},
		{"events.get", "data patient", shapes["patients.get"]},
		{"metadata.list", "data", shapes["patients.get"]},
	} {
		assert.ElementsMatch(t, strings.Fields(c.keys), keysOf(inside(get(c.op), strings.Fields(c.path)...)), "%s %s", c.op, c.path)
	}
}

// The platform's oddities stand where the API shows them, and nowhere else.
func TestOddities(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := exemplars(t, b)
	jane := b.get(all["patients.get"].path).object(200, "patient")
	link := b.get(all["dynamic_links.get"].path).object(200, "dynamic_links", "patient")
	assert.Equal(t, true, jane["text_message_notification"])
	assert.EqualValues(t, 1, link["text_message_notification"], "a number in place of a boolean")

	order := b.get(all["orders.get"].path).object(200, "order")
	for _, total := range []string{"msrp_total", "item_total", "payment_total"} {
		assert.Regexp(t, `^\d+\.\d\d$`, order[total], "a decimal in a string")
	}
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}-05:00$`, order["completed_at"], "with an offset")
	plan := b.get(all["treatment_plans.get"].path).object(200, "treatment_plan")
	assert.Regexp(t, `^\d{4}-\d\d-\d\d$`, plan["available_at"], "a date")
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, plan["created_at"], "in UTC")

	// Numbers and booleans are taken as strings, and come back typed.
	body := b.draft(map[string]any{"recommendations": []any{map[string]any{"variant_id": b.fake.Products.All()[0].VariantIDs[0], "units_to_purchase": "3", "refill": "false"}}})
	line := b.send("POST", all["treatment_plans.create"].path, body).ok(201, "treatment_plan", "recommendations").([]any)[0].(map[string]any)
	assert.Equal(t, 3.0, line["units_to_purchase"])
	assert.Equal(t, false, line["refill"])
	assert.Nil(t, line["dosage"])

	// The same dosage has one spelling in a plan and another in an event.
	_, event, err := b.fake.Plans.Update(b.fake.Plans.All()[0].ID, model.PlanChange{})
	assert.NoError(t, err)
	inEvent := b.get("/events/"+event.ID).ok(200, "event", "data", "treatment_plan", "recommendations").([]any)[0].(map[string]any)["dosage"].(map[string]any)
	inPlan := plan["recommendations"].([]any)[0].(map[string]any)["dosage"].(map[string]any)
	for name, other := range map[string]string{"amount": "recommended_amount", "frequency": "recommended_frequency", "duration": "recommended_duration", "format": "format"} {
		assert.Equal(t, inPlan[name], inEvent[other], name)
		assert.Contains(t, inEvent, other)
	}
}
