package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A clinic's token has no current practitioner.
func TestClinicTokensHaveNoCustomDosage(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{nil, {WithClinicTokens()}} {
		b := start(t, append(opts, WithInMemory())...)
		practitioner, product := b.fake.Clinics.Practitioners()[0], b.fake.Products.All()[2]
		path := "/catalog/products/" + product.ID
		assert.Equal(t, opts == nil, b.get(path).object(200, "product")["custom_dosage"] != nil)
		custom := b.get(path+"?practitioner_id="+practitioner.ID).object(200, "product", "custom_dosage")
		assert.Equal(t, "2", custom["recommended_amount"])
		assert.Nil(t, b.get(path+"?practitioner_id="+b.fake.Clinics.Practitioners()[1].ID).ok(200, "product", "custom_dosage"))
	}
}

// An unknown practitioner is a wrong value, and not an unknown product.
func TestUnknownPractitionerOfAProduct(t *testing.T) {
	t.Parallel()
	first, second := twoClinics(t)
	path := "/catalog/products/" + first.fake.Products.All()[0].ID
	for _, b := range []*browser{first, second} {
		b.get(path+"?practitioner_id=x").refused(422, "practitioner_id must exist")
	}
	second.get(path+"?practitioner_id="+first.fake.Clinics.Practitioners()[0].ID).refused(422, "must exist")
	first.get("/catalog/products/x?practitioner_id=x").refused(404, "Not Found")
}

// Products are similar by what is known of them: those that came in without a type and
// ingredients share nothing.
func TestNewProductsAreSimilarToNothing(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	var made model.Product
	for range 2 {
		var err error
		made, _, err = b.fake.Products.Create(model.NewProduct{})
		require.NoError(t, err)
	}
	assert.Empty(t, b.get("/catalog/products/"+made.ID+"/similar").column("products", "id"))
	assert.NotEmpty(t, b.get("/catalog/products/"+b.fake.Products.All()[0].ID+"/similar").column("products", "id"))
}

// A product that left the catalog is nowhere in it; orders and plans keep what they refer to.
func TestRemovedProduct(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	products := b.fake.Products.All()
	product, patient := products[2], b.fake.Patients.All()[0]
	order, _, err := b.fake.Orders.Place(patient.ID, model.NewOrder{Lines: []model.Line{{VariantID: product.VariantIDs[0], Quantity: 1}}})
	require.NoError(t, err)
	events := len(b.fake.Events())
	require.NoError(t, b.fake.Products.Remove(product.ID))
	assert.Len(t, b.fake.Events(), events, "there is no event type for it")

	left := b.fake.Products.All()
	assert.Len(t, left, len(products)-1)
	listed := b.get("/catalog/products?page[size]=100").column("products", "id")
	assert.Len(t, listed, len(left))
	assert.NotContains(t, listed, product.ID)
	assert.NotContains(t, b.get("/catalog/search/products?page[size]=100").column("products", "id"), product.ID)
	for _, path := range []string{"/catalog/products/" + product.ID, "/catalog/products/" + product.ID + "/similar", "/catalog/variants/" + product.VariantIDs[0]} {
		b.get(path).refused(404, "Not Found")
	}
	for _, other := range left {
		b.get("/catalog/products/" + other.ID + "/similar").ok(200)
	}
	kept, known := b.fake.Products.Get(product.ID)
	assert.True(t, known)
	assert.True(t, kept.Removed)
	placed, known := b.fake.Orders.Get(order.ID)
	assert.True(t, known)
	assert.Equal(t, order, placed)
	require.ErrorIs(t, b.fake.Products.Remove(product.ID), model.ErrNotFound)
	_, _, err = b.fake.Products.Update(product.ID, model.ProductChange{})
	require.ErrorIs(t, err, model.ErrNotFound)
	_, _, err = b.fake.Orders.Place(patient.ID, model.NewOrder{Lines: []model.Line{{VariantID: product.VariantIDs[0], Quantity: 1}}})
	require.ErrorIs(t, err, model.ErrNotFound)
}
