package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestAllergens(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	items := resourcetest.Walk(t, 4, func(p api.Paging) catalog.AllergenListOptions { return catalog.AllergenListOptions{Paging: p} },
		s.Allergens.List, s.Allergens.Pages, s.Allergens.All)
	assert.Equal(t, "Dairy Free", items[0].Name)
	assert.Equal(t, "Soy Free", items[len(items)-1].Name)
	checkGet(t, items, s.Allergens.Get, func(item catalog.Allergen) string { return item.ID })
}
