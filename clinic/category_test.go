package clinic_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

func TestCategories(t *testing.T) {
	t.Parallel()
	b := start(t)
	categories := resourcetest.Walk(t, 3, func(p api.Paging) clinic.CategoryListOptions { return clinic.CategoryListOptions{Paging: p} },
		b.Categories.List, b.Categories.Pages, b.Categories.All)
	var total int
	for _, listed := range categories {
		assert.Zero(t, listed.ProductCount, "lists leave it out")
		single, err := b.Categories.Get(t.Context(), listed.ID)
		require.NoError(t, err)
		total += single.ProductCount
		listed.ProductCount = single.ProductCount
		assert.Equal(t, listed, *single)
		assert.EqualValues(t, len(b.inCategory(listed.ID)), single.ProductCount)
	}
	assert.Equal(t, len(b.Server.Products.All()), total)
}

// inCategory returns the ids of the products that the platform holds in one.
func (b *bench) inCategory(id string) []string {
	var products []string
	for _, p := range b.Server.Products.All() {
		if slices.Contains(p.CategoryIDs, id) {
			products = append(products, p.ID)
		}
	}
	return products
}

func TestCategoryProducts(t *testing.T) {
	t.Parallel()
	b := start(t)
	category := resourcetest.Collect(t, b.Categories.All(t.Context(), clinic.CategoryListOptions{}))[0].ID
	products := resourcetest.WalkOf(t, 2, category, func(p api.Paging) clinic.CategoryListOptions { return clinic.CategoryListOptions{Paging: p} },
		b.Categories.Products, b.Categories.ProductPages, b.Categories.ProductAll)
	assert.Equal(t, b.inCategory(category), resourcetest.IDs(products, func(p catalog.Product) string { return p.ID }))
	for _, product := range products {
		assert.NotNil(t, product.PrimaryVariant, "the form of product lists")
		assert.Empty(t, product.DescriptionHTML, "the form of product lists")
	}
}
