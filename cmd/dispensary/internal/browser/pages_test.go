package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestDynamicLinkCompletesPlan(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		link, err := s.client().TreatmentPlans.DynamicLinks.Create(b.t.Context(), treatmentplans.DynamicLinkCreate{
			PractitionerID: s.fake.Practitioners.All()[0].ID, Patient: &treatmentplans.DynamicLinkPatient{Email: "new.patient@example.org"},
		})
		require.NoError(b.t, err)
		b.visit(link.RedirectURL)
		b.sees("Treatment plan for new.patient@example.org", "Nothing is recommended yet.")
		b.press("Send to the patient")
		b.sees("The plan must recommend at least one product.")
		b.refused(422)
		b.fill("query", "magnesium")
		b.press("Find")
		b.press("Add Magnesium")
		b.fill("units.0", "2")
		b.fill("frequency.0", "every night")
		b.fill("message", "Sleep well")
		b.press("Send to the patient")
		b.sees("The plan was sent to the patient.")
		plan, known := s.fake.Plans.Get(link.TreatmentPlan.ID)
		require.True(b.t, known)
		assert.Equal(b.t, model.PlanStateActive, plan.State)
		assert.Equal(b.t, "Sleep well", plan.PersonalMessage)
		require.Len(b.t, plan.Recommendations, 1)
		assert.Equal(b.t, 2, plan.Recommendations[0].UnitsToPurchase)
		assert.Equal(b.t, "every night", plan.Recommendations[0].Dosage.Frequency)
		assert.Equal(b.t, []string{model.EventTreatmentPlanCreated}, s.kinds())
	})
}

func TestInOfficeCheckoutPlacesOrder(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		plan := s.fake.Plans.All()[0]
		checkout, err := s.client().TreatmentPlans.InOfficeCheckout(b.t.Context(), plan.ID)
		require.NoError(b.t, err)
		orders := len(s.fake.Orders.All())
		b.visit(checkout.URL)
		b.sees("In-office checkout", "Total")
		b.fill("quantity.0", "3")
		b.press("Update the total")
		b.press("Place the order")
		b.sees("was placed.")
		placed := s.fake.Orders.All()[orders:]
		require.Len(b.t, placed, 1)
		assert.Equal(b.t, 3, placed[0].Lines[0].Quantity)
		assert.Equal(b.t, []string{model.EventOrderPlaced}, s.kinds())
	})
}

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
