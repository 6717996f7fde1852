package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestPractitionerTypes(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	kinds := resourcetest.Walk(t, 3, func(p api.Paging) catalog.PractitionerTypeListOptions {
		return catalog.PractitionerTypeListOptions{Paging: p}
	}, s.PractitionerTypes.List, s.PractitionerTypes.Pages, s.PractitionerTypes.All)
	assert.Len(t, kinds, 7)
	words := map[string]string{}
	ids := map[string]bool{}
	for _, kind := range kinds {
		words[kind.Code], ids[kind.ID] = kind.Description, true
	}
	assert.Equal(t, "Naturopathic Doctor", words["ND"])
	for _, practitioner := range platform.Clinics.Practitioners() {
		assert.True(t, ids[practitioner.TypeID], "a practitioner's type is one of them")
	}
}
