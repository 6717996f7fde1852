package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestIngredients(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	items := resourcetest.Walk(t, 20, func(p api.Paging) catalog.IngredientListOptions { return catalog.IngredientListOptions{Paging: p} },
		s.Ingredients.List, s.Ingredients.Pages, s.Ingredients.All)
	assert.Equal(t, "Acetyl-L-Carnitine", items[0].Name)
	assert.Equal(t, "Zinc", items[len(items)-1].Name)
	checkGet(t, items, s.Ingredients.Get, func(item catalog.Ingredient) string { return item.ID })
}
