package dispensarytest

import (
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestCatalogPages(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, second := b.get("/catalog/products"), b.get("/catalog/products?page%5Bnumber%5D=2")
	assert.Len(t, first.ok(200, "products"), 25)
	assert.Equal(t, map[string]any{"current_page": 1.0, "next_page": 2.0, "prev_page": nil, "total_pages": 2.0, "total_count": 44.0}, first.ok(200, "meta"))
	assert.Equal(t, map[string]any{"current_page": 2.0, "next_page": nil, "prev_page": 1.0, "total_pages": 2.0, "total_count": 44.0}, second.ok(200, "meta"))
	ids := slices.Concat(first.column("products", "id"), second.column("products", "id"))
	assert.Equal(t, b.get("/catalog/products?page[size]=1000").column("products", "id"), ids)

	beyond := b.get("/catalog/products?page[number]=9")
	assert.Empty(t, beyond.ok(200, "products"))
	assert.Equal(t, map[string]any{"current_page": 9.0, "next_page": nil, "prev_page": nil, "total_pages": 2.0, "total_count": 44.0}, beyond.ok(200, "meta"))
	for _, query := range []string{"page[number]=0", "page[number]=x", "page[size]=-1", "page[size]=99999999999999999999"} {
		b.get("/catalog/products?"+query).refused(422, "must be a whole number")
	}
	b.get("/catalog/products?a=%zz").refused(400, "malformed")
}

func TestProductShapes(t *testing.T) {
	t.Parallel()
	b := start(t)
	item := b.get("/catalog/products").ok(200, "products").([]any)[2].(map[string]any)
	assert.ElementsMatch(t, []string{"id", "name", "status", "variant_count", "brand", "primary_variant"}, keysOf(item))
	product := b.get("/catalog/products/"+item["id"].(string)).object(200, "product")
	assert.ElementsMatch(t, []string{"id", "name", "status", "variant_count", "brand", "description_html", "variants", "dosage", "custom_dosage"}, keysOf(product))
	assert.ElementsMatch(t, []string{"recommended_amount", "recommended_frequency", "recommended_duration", "format", "additional_info"}, keysOf(product["dosage"]))
	assert.Equal(t, "2", product["custom_dosage"].(map[string]any)["recommended_amount"], "the token's practitioner has a custom dosage")
	other := b.get("/catalog/products/" + item["id"].(string) + "?practitioner_id=" + b.fake.Users()[1].ID)
	assert.Nil(t, other.ok(200, "product", "custom_dosage"))

	variant := product["variants"].([]any)[0].(map[string]any)
	assert.Equal(t, "22.90", variant["msrp"])
	single := b.get("/catalog/variants/"+variant["id"].(string)).object(200, "variant")
	assert.Equal(t, product["brand"], single["product"].(map[string]any)["brand"])
	assert.ElementsMatch(t, []string{
		"id", "sku", "units", "unit_of_measure", "upc", "msrp", "supplier_sku", "status", "availability", "primary",
		"image_url_small", "image_url_medium", "image_url_large", "product",
	}, keysOf(single))
}

func TestProductSearch(t *testing.T) {
	t.Parallel()
	b := start(t)
	search := func(query url.Values) []any {
		return b.get("/catalog/search/products?"+query.Encode()).column("products", "name")
	}
	assert.Equal(t, []any{"Calm Magnesium Powder", "Magnesium Glycinate"}, search(url.Values{"query": {"magnesium northbay"}}))
	assert.Empty(t, search(url.Values{"query": {"Research Blend"}}), "segmented brands are left out")
	magnesium := b.get("/catalog/ingredients?page[size]=100")
	at := slices.Index(magnesium.column("ingredients", "name"), "Magnesium")
	id := magnesium.column("ingredients", "id")[at].(string)
	assert.Equal(t, []any{"Calm Magnesium Powder", "Electrolyte Packets", "Magnesium Glycinate"}, search(url.Values{"ingredient_ids[]": {id}}))
	assert.Empty(t, search(url.Values{"ingredient_ids[]": {id, "x"}}))
	assert.Len(t, search(url.Values{"brand_id": {b.fake.Products.Brands()[0].ID}}), 5)
}

func TestBrands(t *testing.T) {
	t.Parallel()
	b := start(t)
	assert.Len(t, b.get("/catalog/brands").column("brands", "id"), 8)
	assert.Len(t, b.get("/catalog/brands?clinic_permitted=true").column("brands", "id"), 7)
	blend := b.fake.Products.All()[37]
	require.Equal(t, "Research Blend Q", blend.Name)
	_, _, err := b.fake.Products.UpdateVariant(blend.VariantIDs[0], model.VariantChange{Status: new(model.VariantBackordered)})
	require.NoError(t, err)
	assert.Equal(t, "backordered", b.get("/catalog/products/"+blend.ID).ok(200, "product", "status"))
	assert.Equal(t, "unavailable", b.get("/catalog/brands/"+blend.BrandID).ok(200, "brand", "status"))
	assert.Len(t, b.get("/catalog/brands?available=true").column("brands", "id"), 7)
	b.get("/catalog/brands?available=yes").refused(422, "available must be one of")
}

// Every operation answers in its shape, and every id that is unknown is 404.
func TestEveryReadAnswers(t *testing.T) {
	t.Parallel()
	b := start(t)
	platform := b.fake
	_, event, err := platform.Patients.Register(model.NewPatient{})
	require.NoError(t, err)
	known := map[string]string{
		"events.get": event.ID, "orders.get": platform.Orders.All()[0].ID, "products.get": platform.Products.All()[0].ID,
		"products.similar": platform.Products.All()[0].ID, "variants.get": platform.Products.All()[0].VariantIDs[0],
		"brands.get": platform.Products.Brands()[0].ID, "dynamic_links.get": platform.Plans.All()[0].ID, "treatment_plans.get": platform.Plans.All()[0].ID,
		"practitioners.get": platform.Clinics.Practitioners()[0].ID, "protocols.list": platform.Clinics.Practitioners()[0].ID, "templates.list": platform.Clinics.Practitioners()[0].ID,
		"staff.get": b.fake.Users()[2].ID, "patients.get": platform.Patients.All()[0].ID, "orders.list_for_patient": platform.Patients.All()[0].ID,
		"addresses.list": platform.Patients.All()[0].ID, "treatment_plans.list": platform.Patients.All()[0].ID,
	}
	for id, list := range map[string]string{
		"allergens.get": "/catalog/allergens", "ingredients.get": "/catalog/ingredients", "supplement_types.get": "/catalog/supplement_types",
		"third_party_certifications.get": "/catalog/third_party_certifications", "categories.get": "/clinic/categories",
		"categories.products": "/clinic/categories", "protocols.get": "/clinic/practitioners/" + platform.Clinics.Practitioners()[0].ID + "/protocols",
		"templates.get": "/clinic/practitioners/" + platform.Clinics.Practitioners()[0].ID + "/templates",
	} {
		for _, value := range b.get(list).body {
			if rows, isList := value.([]any); isList {
				known[id] = rows[0].(map[string]any)["id"].(string)
			}
		}
	}
	for _, op := range operations.All() {
		if op.Method != "GET" || op.Page || op.ID == "metadata.list" {
			continue
		}
		path, has := routeWith(op.Route, known[op.ID])
		answer := b.get(path)
		answer.ok(200)
		if op.Key != "" {
			answer.ok(200, op.Key)
		}
		if op.List {
			answer.ok(200, "meta")
		}
		if has {
			path, _ = routeWith(op.Route, "no-such-id")
			b.get(path).refused(404, `{"status":404,"error":"Not Found"}`)
		}
	}
	b.fake.Journal().CheckNoUnexpected(t)
}

func TestTableIsTheWholeAPI(t *testing.T) {
	t.Parallel()
	endpoints := make(map[string]bool)
	for _, op := range operations.All() {
		if op.Page {
			continue
		}
		assert.False(t, endpoints[op.ID], op.ID)
		endpoints[op.ID] = true
		assert.NotNil(t, httpapi.Handlers()[op.ID], op.ID)
		assert.True(t, op.Open || op.Scope != "" || op.Assumed, op.ID)
	}
	assert.Len(t, endpoints, 61)
}

func TestProtocols(t *testing.T) {
	t.Parallel()
	b := start(t)
	path := "/clinic/practitioners/" + b.fake.Users()[0].ID + "/protocols"
	assert.Equal(t, []any{"Joint Comfort", "Gut Reset", "Better Sleep"}, b.get(path+"?sort_by=name&order_by=DESC").column("protocols", "name"))
	assert.Equal(t, []any{"Better Sleep", "Gut Reset", "Winter Immunity"}, b.get(path+"?ownership_type=all&current_state=active").column("protocols", "name"))
	b.get(path+"?sort_by=id").refused(422, "sort_by must be one of")
	id := b.get(path).column("protocols", "id")[0].(string)
	assert.ElementsMatch(t, []string{"id", "name", "current_state", "practitioner", "personal_message", "recommendations"}, keysOf(b.get("/clinic/protocols/"+id).ok(200, "protocol")))
	assert.ElementsMatch(t, []string{"id", "name", "current_state", "practitioner_id", "personal_message", "recommendations"}, keysOf(b.get("/clinic/templates/"+id).ok(200, "template")))
}
