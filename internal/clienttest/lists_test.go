package clienttest_test

import (
	"context"
	"fmt"
	"iter"
	"reflect"
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

// The three ways of reading a list return the same items.
func TestListPagesAndAllAgree(t *testing.T) {
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
	agree(t, clinic.CategoryListOptions{}, k.Categories.List, k.Categories.Pages, k.Categories.All)
	agreeOn(t, f.Category, clinic.CategoryListOptions{}, k.Categories.Products, k.Categories.ProductPages, k.Categories.ProductAll)
	agree(t, clinic.MetadataListOptions{ID: "ehr-any-1"}, k.Metadata.List, k.Metadata.Pages, k.Metadata.All)
	agree(t, clinic.OrderListOptions{SortBy: clinic.OrderSortCompletion, SortOrder: api.SortOrderDescending}, k.Orders.List, k.Orders.Pages, k.Orders.All)
	agreeOn(t, f.Patient, clinic.PatientOrderListOptions{}, k.Orders.ListForPatient, k.Orders.PagesForPatient, k.Orders.AllForPatient)
	agree(t, clinic.PatientListOptions{}, k.Patients.List, k.Patients.Pages, k.Patients.All)
	agree(t, clinic.PatientSearchOptions{Query: "example.org"}, k.Patients.Search, k.Patients.SearchPages, k.Patients.SearchAll)
	agree(t, clinic.PractitionerListOptions{}, k.Practitioners.List, k.Practitioners.Pages, k.Practitioners.All)
	agree(t, clinic.StaffListOptions{}, k.Staff.List, k.Staff.Pages, k.Staff.All)

	p := f.Client.TreatmentPlans
	agreeOn(t, f.Patient, treatmentplans.ListOptions{SortBy: treatmentplans.SortUpdatedAt, SortOrder: api.SortOrderDescending}, p.List, p.Pages, p.All)
	agreeOn(t, f.Practitioner, treatmentplans.ProtocolListOptions{OwnershipType: treatmentplans.OwnershipAny}, p.Protocols.List, p.Protocols.Pages, p.Protocols.All)
	//lint:ignore SA1019 templates are deprecated, and still there
	agreeOn(t, f.Practitioner, treatmentplans.TemplateListOptions{}, p.Templates.List, p.Templates.Pages, p.Templates.All)
}

// same reads a list in each of its three ways, one item a page, and compares the items.
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

type (
	list[O, T any]   func(context.Context, O, ...api.RequestOption) (*api.Page[T], error)
	listOf[O, T any] func(context.Context, string, O, ...api.RequestOption) (*api.Page[T], error)
	walk[O, T any]   func(context.Context, O, ...api.RequestOption) iter.Seq2[T, error]
	walkOf[O, T any] func(context.Context, string, O, ...api.RequestOption) iter.Seq2[T, error]
)

// agree reads a list in each of its three ways, one item a page, and compares the items.
func agree[O, T any](t *testing.T, options O, list list[O, T], pages walk[O, *api.Page[T]], all walk[O, T]) {
	t.Helper()
	name := fmt.Sprintf("%T", options)
	paged := func(paging api.Paging) O {
		reflect.ValueOf(&options).Elem().FieldByName("Paging").Set(reflect.ValueOf(paging))
		return options
	}
	items := resourcetest.Collect(t, all(t.Context(), paged(api.Paging{PageSize: 1})))
	require.Greater(t, len(items), 1, name)
	var again []T
	for _, page := range resourcetest.Collect(t, pages(t.Context(), paged(api.Paging{PageSize: 1}))) {
		assert.EqualValues(t, len(items), page.Meta.TotalCount, name)
		assert.Len(t, page.Items, 1, name)
		again = append(again, page.Items...)
	}
	assert.Equal(t, items, again, name)
	second, err := list(t.Context(), paged(api.Paging{Page: 2, PageSize: 1}))
	require.NoError(t, err)
	assert.Equal(t, items[1:2], second.Items, name)
}

// agreeOn is [agree] for the list of the record with the id.
func agreeOn[O, T any](t *testing.T, id string, options O, list listOf[O, T], pages walkOf[O, *api.Page[T]], all walkOf[O, T]) {
	t.Helper()
	agree(t, options,
		func(ctx context.Context, o O, r ...api.RequestOption) (*api.Page[T], error) {
			return list(ctx, id, o, r...)
		},
		func(ctx context.Context, o O, r ...api.RequestOption) iter.Seq2[*api.Page[T], error] {
			return pages(ctx, id, o, r...)
		},
		func(ctx context.Context, o O, r ...api.RequestOption) iter.Seq2[T, error] {
			return all(ctx, id, o, r...)
		})
}
