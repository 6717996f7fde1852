package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestSimilarProducts(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	id := platform.Products.All()[2].ID
	similar := resourcetest.WalkOf(t, 4, id, func(p api.Paging) catalog.ProductListOptions { return catalog.ProductListOptions{Paging: p} },
		s.Products.Similar, s.Products.SimilarPages, s.Products.SimilarAll)
	assert.Equal(t, "Adaptogen Balance", similar[0].Name, "the platform's order is kept: the nearest first")
	for _, product := range similar {
		assert.NotEqual(t, id, product.ID)
		assert.NotNil(t, product.PrimaryVariant)
		assert.Nil(t, product.Variants, "the form of lists")
	}
	for product, err := range s.Products.SimilarAll(t.Context(), unknown, catalog.ProductListOptions{}) {
		require.ErrorIs(t, err, api.ErrNotFound)
		assert.Zero(t, product)
	}
}
