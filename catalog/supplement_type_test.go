package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestSupplementTypes(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	items := resourcetest.Walk(t, 3, func(p api.Paging) catalog.SupplementTypeListOptions {
		return catalog.SupplementTypeListOptions{Paging: p}
	},
		s.SupplementTypes.List, s.SupplementTypes.Pages, s.SupplementTypes.All)
	assert.Equal(t, "Amino Acids", items[0].Name)
	assert.Equal(t, "Vitamins", items[len(items)-1].Name)
	checkGet(t, items, s.SupplementTypes.Get, func(item catalog.SupplementType) string { return item.ID })
}
