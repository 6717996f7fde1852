// Package operations describes the API as data: a table of its operations, and its scopes.
package operations

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Operation is one row of the platform's route table. API operations and the authorize page
// have one.
type Operation struct {
	ID     string
	Method string
	Route  string // below the base URL, parameters in braces
	Key    string // wraps the value in the response
	List   bool
	Scope  string
	// Assumed marks scopes that the API does not state for the endpoint.
	Assumed bool
	Query   []string // known parameters
	// Open operations contain their own credentials and need no token.
	Open bool
	// Page marks operations that a browser opens.
	Page bool

	Needs []string // Scope as a list
}

var (
	eventQuery  = []string{"created_at", "event_type", "sort_by", "order_by"}
	searchQuery = []string{"query", "brand_id", "allergen_ids[]", "ingredient_ids[]", "supplement_type_ids[]", "third_party_certification_ids[]"}
)

// All returns the whole API: 61 endpoints and the authorize page, in the order of the API's
// sections. It is built once per process.
var All = sync.OnceValue(func() []Operation {
	all := []Operation{
		// OAuth
		{ID: "oauth.authorize", Method: "GET", Route: "/oauth/authorize", Open: true, Page: true, Query: []string{"client_id", "redirect_uri", "response_type", "state", "scope"}},
		{ID: "oauth.authorize", Method: "POST", Route: "/oauth/authorize", Open: true, Page: true},
		{ID: "oauth.token", Method: "POST", Route: "/oauth/token", Key: "oauth", Open: true},
		{ID: "oauth.revoke", Method: "POST", Route: "/oauth/revoke", Open: true},

		// Dynamic links (quick integration)
		{ID: "dynamic_links.get", Method: "GET", Route: "/clinic/dynamic_links/treatment_plans/{treatment_plan_id}", Key: "dynamic_links", Scope: ScopeClinicRead, Assumed: true},
		{ID: "dynamic_links.new", Method: "GET", Route: "/clinic/dynamic_links/treatment_plans", Scope: ScopeClinicRead, Assumed: true},
		{ID: "dynamic_links.create", Method: "POST", Route: "/clinic/dynamic_links/treatment_plans", Key: "dynamic_links", Scope: scopeClinicWrite},

		// Catalog
		{ID: "allergens.list", Method: "GET", Route: "/catalog/allergens", Key: "allergens", List: true, Scope: ScopeCatalog, Assumed: true},
		{ID: "allergens.get", Method: "GET", Route: "/catalog/allergens/{id}", Key: "allergen", Scope: ScopeCatalog, Assumed: true},
		{ID: "brands.list", Method: "GET", Route: "/catalog/brands", Key: "brands", List: true, Scope: ScopeCatalog, Assumed: true, Query: []string{"available", "clinic_permitted"}},
		{ID: "brands.get", Method: "GET", Route: "/catalog/brands/{id}", Key: "brand", Scope: ScopeCatalog, Assumed: true},
		{ID: "ingredients.list", Method: "GET", Route: "/catalog/ingredients", Key: "ingredients", List: true, Scope: ScopeCatalog, Assumed: true},
		{ID: "ingredients.get", Method: "GET", Route: "/catalog/ingredients/{id}", Key: "ingredient", Scope: ScopeCatalog, Assumed: true},
		{ID: "practitioner_types.list", Method: "GET", Route: "/catalog/practitioner_types", Key: "practitioner_types", List: true, Scope: ScopeCatalog, Assumed: true},
		{ID: "products.list", Method: "GET", Route: "/catalog/products", Key: "products", List: true, Scope: ScopeCatalog, Assumed: true},
		{ID: "products.get", Method: "GET", Route: "/catalog/products/{id}", Key: "product", Scope: ScopeCatalog, Assumed: true, Query: []string{"practitioner_id"}},
		{ID: "products.search", Method: "GET", Route: "/catalog/search/products", Key: "products", List: true, Scope: ScopeCatalog, Assumed: true, Query: searchQuery},
		{ID: "products.similar", Method: "GET", Route: "/catalog/products/{product_id}/similar", Key: "products", List: true, Scope: ScopeCatalog, Assumed: true},
		{ID: "supplement_types.list", Method: "GET", Route: "/catalog/supplement_types", Key: "supplement_types", List: true, Scope: ScopeCatalog, Assumed: true},
		{ID: "supplement_types.get", Method: "GET", Route: "/catalog/supplement_types/{id}", Key: "supplement_type", Scope: ScopeCatalog, Assumed: true},
		{ID: "third_party_certifications.list", Method: "GET", Route: "/catalog/third_party_certifications", Key: "third_party_certifications", List: true, Scope: ScopeCatalog, Assumed: true},
		{ID: "third_party_certifications.get", Method: "GET", Route: "/catalog/third_party_certifications/{id}", Key: "third_party_certification", Scope: ScopeCatalog, Assumed: true},
		{ID: "variants.get", Method: "GET", Route: "/catalog/variants/{id}", Key: "variant", Scope: ScopeCatalog, Assumed: true},

		// Clinic, addresses, categories
		{ID: "clinic.get", Method: "GET", Route: "/clinic", Key: "clinic", Scope: ScopeClinicRead, Assumed: true},
		{ID: "addresses.list", Method: "GET", Route: "/clinic/patients/{patient_id}/addresses", Key: "addresses", List: true, Scope: ScopePatientsRead, Assumed: true},
		{ID: "categories.list", Method: "GET", Route: "/clinic/categories", Key: "categories", List: true, Scope: ScopeClinicRead, Assumed: true},
		{ID: "categories.get", Method: "GET", Route: "/clinic/categories/{id}", Key: "category", Scope: ScopeClinicRead, Assumed: true},
		{ID: "categories.products", Method: "GET", Route: "/clinic/categories/{category_id}/products", Key: "products", List: true, Scope: ScopeClinicRead, Assumed: true},

		// Orders
		{ID: "orders.list_for_patient", Method: "GET", Route: "/clinic/patients/{patient_id}/orders", Key: "orders", List: true, Scope: ScopeOrderHistory, Assumed: true},
		{ID: "orders.get", Method: "GET", Route: "/clinic/orders/{id}", Key: "order", Scope: ScopeOrderHistory, Assumed: true},
		{ID: "orders.list", Method: "GET", Route: "/clinic/orders", Key: "orders", List: true, Scope: ScopeOrderHistory, Assumed: true, Query: []string{"patient_id", "treatment_plan_id", "completed_at", "order_number", "sort_by", "order_by"}},

		// Patients
		{ID: "patients.list", Method: "GET", Route: "/clinic/patients", Key: "patients", List: true, Scope: ScopePatientsRead, Assumed: true},
		{ID: "patients.get", Method: "GET", Route: "/clinic/patients/{id}", Key: "patient", Scope: ScopePatientsRead, Assumed: true},
		{ID: "patients.create", Method: "POST", Route: "/clinic/patients", Key: "patient", Scope: ScopePatientsEdit, Assumed: true},
		{ID: "patients.update", Method: "PATCH", Route: "/clinic/patients/{id}", Key: "patient", Scope: ScopePatientsEdit, Assumed: true},
		{ID: "patients.search", Method: "GET", Route: "/clinic/search/patients", Key: "patients", List: true, Scope: ScopePatientsRead, Assumed: true, Query: []string{"query"}},

		// Practitioners
		{ID: "practitioners.list", Method: "GET", Route: "/clinic/practitioners", Key: "practitioners", List: true, Scope: ScopeClinicRead, Assumed: true},
		{ID: "practitioners.get", Method: "GET", Route: "/clinic/practitioners/{id}", Key: "practitioner", Scope: ScopeClinicRead, Assumed: true},
		{ID: "practitioners.create", Method: "POST", Route: "/clinic/practitioners", Key: "practitioner", Scope: scopeClinicWrite, Assumed: true},
		{ID: "practitioners.update", Method: "PATCH", Route: "/clinic/practitioners/{id}", Key: "practitioner", Scope: scopeClinicWrite, Assumed: true},

		// Staff
		{ID: "staff.list", Method: "GET", Route: "/clinic/staff", Key: "staff", List: true, Scope: ScopeClinicRead, Assumed: true},
		{ID: "staff.get", Method: "GET", Route: "/clinic/staff/{id}", Key: "staff", Scope: ScopeClinicRead, Assumed: true},
		{ID: "staff.create", Method: "POST", Route: "/clinic/staff", Key: "staff", Scope: scopeClinicWrite, Assumed: true},
		{ID: "staff.update", Method: "PATCH", Route: "/clinic/staff/{id}", Key: "staff", Scope: scopeClinicWrite, Assumed: true},

		// Protocols and templates
		{ID: "protocols.get", Method: "GET", Route: "/clinic/protocols/{id}", Key: "protocol", Scope: ScopeClinicRead, Assumed: true},
		{ID: "protocols.list", Method: "GET", Route: "/clinic/practitioners/{practitioner_id}/protocols", Key: "protocols", List: true, Scope: ScopeClinicRead, Assumed: true, Query: []string{"current_state", "ownership_type", "sort_by", "order_by"}},
		{ID: "templates.get", Method: "GET", Route: "/clinic/templates/{id}", Key: "template", Scope: ScopeClinicRead, Assumed: true},
		{ID: "templates.list", Method: "GET", Route: "/clinic/practitioners/{practitioner_id}/templates", Key: "templates", List: true, Scope: ScopeClinicRead, Assumed: true},

		// Treatment plans
		{ID: "treatment_plans.list", Method: "GET", Route: "/clinic/patients/{patient_id}/treatment_plans", Key: "treatment_plans", List: true, Scope: ScopePatientsRead, Assumed: true, Query: []string{"sort_by", "order_by"}},
		{ID: "treatment_plans.create", Method: "POST", Route: "/clinic/patients/{patient_id}/treatment_plans", Key: "treatment_plan", Scope: scopeClinicWrite},
		{ID: "treatment_plans.get", Method: "GET", Route: "/clinic/treatment_plans/{id}", Key: "treatment_plan", Scope: ScopePatientsRead, Assumed: true},
		{ID: "treatment_plans.update", Method: "PATCH", Route: "/clinic/treatment_plans/{id}", Key: "treatment_plan", Scope: scopeClinicWrite, Assumed: true},
		{ID: "treatment_plans.cancel", Method: "PATCH", Route: "/clinic/treatment_plans/{id}/cancel", Key: "treatment_plan", Scope: scopeClinicWrite, Assumed: true},
		{ID: "treatment_plans.activate", Method: "PATCH", Route: "/clinic/treatment_plans/{id}/activate", Key: "treatment_plan", Scope: scopeClinicWrite, Assumed: true},
		{ID: "treatment_plans.in_office_checkout", Method: "POST", Route: "/clinic/treatment_plans/{id}/in_office_checkout", Key: "in_office_checkout", Scope: scopeClinicWrite, Assumed: true},

		// Metadata: the scope depends on the requested type
		{ID: "metadata.list", Method: "GET", Route: "/clinic/metadata", Key: "metadata", List: true, Query: []string{"id", "type"}, Assumed: true},

		// Events: the scope of a single event depends on its type
		{ID: "events.get", Method: "GET", Route: "/events/{id}", Key: "event", Assumed: true},
		{ID: "events.list_clinic_keys", Method: "GET", Route: "/events/clinic_keys", Key: "events", List: true, Scope: ScopeClinicRead, Assumed: true, Query: eventQuery},
		{ID: "events.list_patients", Method: "GET", Route: "/events/patients", Key: "events", List: true, Scope: ScopePatientsRead, Assumed: true, Query: eventQuery},
		{ID: "events.list_treatment_plans", Method: "GET", Route: "/events/treatment_plans", Key: "events", List: true, Scope: ScopePlanHistory, Assumed: true, Query: eventQuery},
		{ID: "events.list_orders", Method: "GET", Route: "/events/orders", Key: "events", List: true, Scope: ScopeOrderHistory, Assumed: true, Query: eventQuery},
		{ID: "events.list_products", Method: "GET", Route: "/events/products", Key: "events", List: true, Scope: ScopeCatalog, Assumed: true, Query: eventQuery},

		// Webhook deliveries
		{ID: "webhook_deliveries.list", Method: "GET", Route: "/webhooks/deliveries", Key: "webhook_deliveries", List: true, Scope: ScopeCatalog, Assumed: true, Query: []string{"attempted_at", "event_id", "successfully_delivered", "sort_by", "order_by"}},
	}
	for i := range all {
		if all[i].Scope != "" {
			all[i].Needs = []string{all[i].Scope}
		}
		if all[i].List {
			all[i].Query = append(slices.Clone(all[i].Query), "page[number]", "page[size]")
		}
	}
	return all
})

func IDs() []string {
	var ids []string
	for _, op := range All() {
		ids = append(ids, op.ID)
	}
	return ids
}

// Scope describes a scope to the user who decides about it.
type Scope struct {
	name        string
	Title       string
	Description string
	members     []string // of a group name
}

// scopeTable contains every scope of the API. API section: "Authentication" 7. Assumption: a
// group name grants all of its members.
var scopeTable = []Scope{
	{name: ScopeCatalog, Title: "Browse the catalog", Description: "See brands, products, packs and prices."},
	{name: ScopeClinicRead, Title: "See your clinic", Description: "Read the clinic's account, practitioners, staff and protocols."},
	{name: scopeClinicWrite, Title: "Work on behalf of your clinic", Description: "Add and edit practitioners and staff, and write treatment plans for the clinic's practitioners."},
	{name: ScopePatientsRead, Title: "See your patients", Description: "Read patient records, addresses and the treatment plans made by this application."},
	{name: ScopePatientsEdit, Title: "Add and edit patients", Description: "Create patient records and change their details."},
	{name: ScopePlanHistory, Title: "See past treatment plans", Description: "Read past treatment plans and treatment plans from other sources."},
	{name: ScopeOrderHistory, Title: "See orders", Description: "Read patients' orders, with dates and payments."},
	{name: "clinic", Title: "Your clinic", Description: "Everything above about the clinic.", members: []string{ScopeClinicRead, scopeClinicWrite}},
	{name: "patients", Title: "Your patients", Description: "Everything above about patients.", members: []string{ScopePatientsRead, ScopePatientsEdit, ScopePlanHistory, ScopeOrderHistory}},
}

// AllScopes returns the scopes of an application by default.
func AllScopes() []string {
	var names []string
	for _, s := range scopeTable {
		if s.members == nil {
			names = append(names, s.name)
		}
	}
	return names
}

// Scopes returns the scopes of the API, and the group names clinic and patients, each of which
// grants all of its scopes. API section: "Authentication" 7.
func Scopes() []string {
	var names []string
	for _, s := range scopeTable {
		names = append(names, s.name)
	}
	return names
}

func FindScope(name string) (Scope, bool) {
	for _, s := range scopeTable {
		if s.name == name {
			return s, true
		}
	}
	return Scope{}, false
}

// CheckScopes rejects names that are not scopes of the API.
func CheckScopes(names []string) error {
	for _, name := range names {
		if _, ok := FindScope(name); !ok {
			return errors.New("dispensarytest: " + closestmatch.Unknown("scope", name, Scopes()))
		}
	}
	return nil
}

// Granted returns the scopes that a list grants, with group names expanded.
func Granted(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, name)
		if s, ok := FindScope(name); ok {
			all = append(all, s.members...)
		}
	}
	return all
}

// MergeScopes adds the scopes of more that have does not contain.
func MergeScopes(have, more []string) []string {
	merged := slices.Clone(have)
	for _, name := range more {
		if !slices.Contains(merged, name) {
			merged = append(merged, name)
		}
	}
	return merged
}

func ScopeText(names []string) string { return strings.Join(names, " ") }

const (
	ScopeCatalog      = "catalog:read"
	ScopeClinicRead   = "clinic:read"
	scopeClinicWrite  = "clinic:write"
	ScopePatientsRead = "patients:read"
	ScopePatientsEdit = "patients:write"
	ScopePlanHistory  = "patients:treatment_plan_history"
	ScopeOrderHistory = "patients:order_history"
)
