package httpapi

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
)

// endpoint is an operation with its handler or page.
type endpoint struct {
	operations.Operation
	handle handler
	page   pageHandler
}

// route is a path of the API with its operations by method. It has at most one parameter.
type route struct {
	segments []string // a parameter in braces
	params   int
	ops      map[string]*endpoint
}

// routes returns the table by route, with routes without parameters first. It is built once
// per process.
var routes = sync.OnceValue(func() (all []*route) {
	answered, pages, known := handlers(), authorizePages(), make(map[string]*route)
	for _, op := range operations.All() {
		found := &endpoint{Operation: op, handle: answered[op.ID]}
		if op.Page {
			found.page = pages[op.Method]
		}
		if known[op.Route] == nil {
			known[op.Route] = &route{segments: strings.Split(op.Route, "/"), params: strings.Count(op.Route, "{"), ops: make(map[string]*endpoint, 1)}
			all = append(all, known[op.Route])
		}
		known[op.Route].ops[op.Method] = found
	}
	slices.SortStableFunc(all, func(a, b *route) int { return a.params - b.params })
	return all
})

// findRoute returns the route of an escaped path below the base URL, or nil. It stores the
// value of the parameter in arg.
func findRoute(path string, arg *string) *route {
	segments := strings.Split(path, "/")
	for _, r := range routes() {
		if r.matches(segments, arg) {
			return r
		}
	}
	return nil
}

func (r *route) matches(path []string, arg *string) bool {
	if len(path) != len(r.segments) {
		return false
	}
	for i, segment := range r.segments {
		if !strings.HasPrefix(segment, "{") {
			if segment != path[i] {
				return false
			}
			continue
		}
		value, err := url.PathUnescape(path[i])
		if err != nil || value == "" {
			return false
		}
		*arg = value
	}
	return true
}

// handlers returns the handler of each operation by its id.
func handlers() map[string]handler {
	return map[string]handler{
		"oauth.token":                        createToken,
		"oauth.revoke":                       revokeToken,
		"dynamic_links.get":                  getDynamicLink,
		"dynamic_links.new":                  newDynamicLink,
		"dynamic_links.create":               createDynamicLink,
		"allergens.list":                     listTerms(allergens),
		"allergens.get":                      getTerm(allergens),
		"brands.list":                        listBrands,
		"brands.get":                         getBrand,
		"ingredients.list":                   listTerms(ingredients),
		"ingredients.get":                    getTerm(ingredients),
		"practitioner_types.list":            listPractitionerTypes,
		"products.list":                      listProducts,
		"products.get":                       getProduct,
		"products.search":                    searchProducts,
		"products.similar":                   listSimilarProducts,
		"supplement_types.list":              listTerms(supplementTypes),
		"supplement_types.get":               getTerm(supplementTypes),
		"third_party_certifications.list":    listTerms(certifications),
		"third_party_certifications.get":     getTerm(certifications),
		"variants.get":                       getVariant,
		"clinic.get":                         getClinic,
		"addresses.list":                     ofClinic((*store.World).PatientOf, listAddresses),
		"categories.list":                    listCategories,
		"categories.get":                     ofClinic((*store.World).CategoryOf, getCategory),
		"categories.products":                ofClinic((*store.World).CategoryOf, listCategoryProducts),
		"orders.list_for_patient":            ofClinic((*store.World).PatientOf, listPatientOrders),
		"orders.get":                         getOrder,
		"orders.list":                        listOrders,
		"patients.list":                      listPatients,
		"patients.get":                       ofClinic((*store.World).PatientOf, getPatient),
		"patients.create":                    createPatient,
		"patients.update":                    ofClinic((*store.World).PatientOf, updatePatient),
		"patients.search":                    searchPatients,
		"practitioners.list":                 listPractitioners,
		"practitioners.get":                  ofClinic((*store.World).PractitionerOf, shown(viewPractitioner)),
		"practitioners.create":               createPractitioner,
		"practitioners.update":               ofClinic((*store.World).PractitionerOf, updatePractitioner),
		"staff.list":                         listStaff,
		"staff.get":                          ofClinic((*store.World).StaffOf, shown(viewStaff)),
		"staff.create":                       createStaff,
		"staff.update":                       ofClinic((*store.World).StaffOf, updateStaff),
		"protocols.get":                      ofClinic((*store.World).ProtocolOf, shown(viewProtocol)),
		"protocols.list":                     ofClinic((*store.World).PractitionerOf, listProtocols),
		"templates.get":                      ofClinic((*store.World).ProtocolOf, shown(viewTemplate)),
		"templates.list":                     ofClinic((*store.World).PractitionerOf, listTemplates),
		"treatment_plans.list":               ofClinic((*store.World).PatientOf, listPlans),
		"treatment_plans.create":             createPlan,
		"treatment_plans.get":                getPlan,
		"treatment_plans.update":             updatePlan,
		"treatment_plans.cancel":             cancelPlan,
		"treatment_plans.activate":           activatePlan,
		"treatment_plans.in_office_checkout": checkoutPlan,
		"metadata.list":                      listMetadata,
		"events.get":                         getEvent,
		"events.list_clinic_keys":            listEvents("clinic_key"),
		"events.list_patients":               listEvents("patient"),
		"events.list_treatment_plans":        listEvents("treatment_plan"),
		"events.list_orders":                 listEvents("order"),
		"events.list_products":               listEvents("product"),
		"webhook_deliveries.list":            listDeliveries,
	}
}

// authorizePages returns the handlers of the authorize page by method.
func authorizePages() map[string]pageHandler {
	return map[string]pageHandler{
		"GET":  authorizePage,
		"POST": authorizeAnswer,
	}
}
