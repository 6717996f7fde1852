package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A product name may be longer than a line. Prices name their currency.
func TestLongProductNameFitsPage(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t, dispensarytest.WithEnvironment(api.CanadaSandbox)), open(t)
	p := s.fake
	product, _, err := p.Products.Create(model.ProductCreate{
		Name: "Magnesium bisglycinate with vitamin B6 and " + strings.Repeat("Donaudampfschifffahrt", 5) + " of the very first harvest of the year",
	})
	require.NoError(t, err)
	plan, _, err := p.Plans.Create(p.Patients.All()[0].ID, model.PlanCreate{
		Recommendations: []model.Recommendation{{VariantID: product.VariantIDs[0], UnitsToPurchase: 1}},
	})
	require.NoError(t, err)
	b.visit(strings.TrimSuffix(s.fake.Site().BaseURL, "/api") + "/plans/" + plan.ID + "/edit")
	for _, width := range []int64{1280, narrow} {
		b.window(width, 900)
		assert.Empty(t, eval[[]string](b, `[...document.querySelectorAll("legend")].filter((legend) => {
			const frame = legend.parentElement.getBoundingClientRect(), at = legend.getBoundingClientRect();
			const onTheEdge = getComputedStyle(legend).float === "none" && legend.getClientRects().length && at.height > 36;
			return onTheEdge || at.left < frame.left || at.right > frame.right || legend.scrollWidth > legend.clientWidth;
		}).map((legend) => legend.innerText)`), "at %d px", width)
	}
	b.sees(" CAD")
}
