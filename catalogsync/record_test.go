package catalogsync_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogtest"
)

// A page has what Listed makes of the zero Record, without a second encoding.
func TestNewListed(t *testing.T) {
	t.Parallel()
	for _, e := range catalogtest.Products(10) {
		e.Product.PrimaryVariant, e.Product.DescriptionHTML = &e.Product.Variants[0], "<p>not of a list</p>"
		page, err := catalogsync.NewListed(time.Unix(1, 0), e.Product)
		require.NoError(t, err)
		require.Len(t, page, 1)
		r, document := page[0].Record, page[0].Document
		want, changed := catalogsync.Record{}.Listed(e.Product, time.Unix(1, 0))
		assert.True(t, changed)
		assert.Equal(t, want, r)
		assert.Equal(t, catalogsync.ContentHash(r.Product, r.Attributes), r.Hash)
		var decoded catalog.Product
		require.NoError(t, json.Unmarshal(document, &decoded))
		assert.Equal(t, r.Product, decoded)
	}
	_, err := catalogsync.NewListed(time.Time{}, catalog.Product{ID: "a", PrimaryVariant: &catalog.Variant{MSRP: "no number"}})
	require.ErrorContains(t, err, "product a")
}
