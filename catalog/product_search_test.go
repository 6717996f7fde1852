package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestProductSearch(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	found := resourcetest.Walk(t, 2, func(p api.Paging) catalog.ProductSearchOptions {
		return catalog.ProductSearchOptions{Query: "vitamin", Paging: p}
	},
		s.Products.Search, s.Products.SearchPages, s.Products.SearchAll)
	assert.Len(t, found, 3, "what has the word in its name, its brand or its SKU")
	for _, product := range found {
		held, known := platform.Products.Get(product.ID)
		require.True(t, known)
		want, variants := wantProduct(t, platform, held), variantsOf(t, platform, held)
		want.PrimaryVariant = &variants[0]
		assert.Equal(t, want, product)
	}
}
