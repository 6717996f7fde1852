package clienttest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestListReturnsSameItemsInThreeWays(t *testing.T) {
	t.Parallel()
	f := calltest.NewFixture(t, dispensarytest.WithInMemory())
	_, err := f.Client.Clinic.Staff.Create(t.Context(), clinic.StaffMemberCreate{
		Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: metadataOf("any", 1),
	})
	require.NoError(t, err)
	_, err = f.Client.Clinic.Patients.Update(t.Context(), f.Patient, clinic.PatientUpdate{Metadata: api.Value(metadataOf("any", 1))})
	require.NoError(t, err)

	c := f.Client.Catalog
	same(t, c.Allergens.List())
	same(t, c.Brands.List(catalog.BrandListOptions{}))
	same(t, c.Ingredients.List())
	same(t, c.PractitionerTypes.List())
	same(t, c.Products.List())
	same(t, c.Products.Search(catalog.ProductSearchOptions{Query: "vitamin"}))
	same(t, c.Products.Similar(f.Product))
	same(t, c.SupplementTypes.List())
	same(t, c.ThirdPartyCertifications.List())

	k := f.Client.Clinic
	same(t, k.Categories.List())
	same(t, k.Categories.Products(f.Category))
	same(t, k.Orders.List(clinic.OrderListOptions{SortBy: clinic.OrderSortCompletion, SortOrder: api.SortOrderDescending}))
	same(t, k.Orders.ListForPatient(f.Patient))
	same(t, k.Patients.List())
	same(t, k.Patients.Search(clinic.PatientSearchOptions{Query: "example.org"}))
	same(t, k.Practitioners.List())
	same(t, k.Staff.List())

	p := f.Client.TreatmentPlans
	same(t, p.ListForPatient(f.Patient, treatmentplans.ListOptions{SortBy: treatmentplans.SortUpdatedAt, SortOrder: api.SortOrderDescending}))
	same(t, p.Protocols.ListForPractitioner(f.Practitioner, treatmentplans.ProtocolListOptions{OwnershipType: treatmentplans.OwnershipAny}))
	//lint:ignore SA1019 templates are deprecated, but still exported
	same(t, p.Templates.ListForPractitioner(f.Practitioner))
}

// same reads a list in each of the three ways, with one item per page, and compares the items.
func same[T any](t *testing.T, list *api.List[T]) {
	t.Helper()
	name := fmt.Sprintf("%T", list)
	items := resourcetest.Collect(t, list.PageSize(1).All(t.Context()))
	require.Greater(t, len(items), 1, name)
	var again []T
	for _, page := range resourcetest.Collect(t, list.PageSize(1).Pages(t.Context())) {
		assert.EqualValues(t, len(items), page.Meta.TotalCount, name)
		assert.Len(t, page.Items, 1, name)
		again = append(again, page.Items...)
	}
	assert.Equal(t, items, again, name)
	second, err := list.PageSize(1).StartAt(2).Page(t.Context())
	require.NoError(t, err)
	assert.Equal(t, items[1:2], second.Items, name)
}
