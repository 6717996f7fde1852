package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestThirdPartyCertifications(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	items := resourcetest.Walk(t, 3, func(p api.Paging) catalog.ThirdPartyCertificationListOptions {
		return catalog.ThirdPartyCertificationListOptions{Paging: p}
	},
		s.ThirdPartyCertifications.List, s.ThirdPartyCertifications.Pages, s.ThirdPartyCertifications.All)
	assert.Equal(t, "Heavy Metal Tested", items[0].Name)
	assert.Equal(t, "Vegan Certified", items[len(items)-1].Name)
	checkGet(t, items, s.ThirdPartyCertifications.Get, func(item catalog.ThirdPartyCertification) string { return item.ID })
}
