package catalogsync_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/internal/catalogtest"
)

// NewRecord is Listed of the zero Record, without a second encoding.
func TestNewRecord(t *testing.T) {
	t.Parallel()
	for _, e := range catalogtest.Products(10) {
		e.Product.PrimaryVariant, e.Product.DescriptionHTML = &e.Product.Variants[0], "<p>not of a list</p>"
		r, document, err := catalogsync.NewRecord(e.Product, time.Unix(1, 0))
		require.NoError(t, err)
		want, changed := catalogsync.Record{}.Listed(e.Product, time.Unix(1, 0))
		assert.True(t, changed)
		assert.Equal(t, want, r)
		assert.Equal(t, catalogsync.ContentHash(r.Product, r.Attributes), r.Hash)
		var decoded catalog.Product
		require.NoError(t, json.Unmarshal(document, &decoded))
		assert.Equal(t, r.Product, decoded)
	}
	_, _, err := catalogsync.NewRecord(catalog.Product{PrimaryVariant: &catalog.Variant{MSRP: "no number"}}, time.Time{})
	require.Error(t, err)
}
