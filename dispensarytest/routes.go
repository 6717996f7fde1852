package dispensarytest

// A handler answers one operation. The pipeline has checked the token and the
// scope, parsed page, query and body, and holds the world's lock: for reading
// where the method is GET, for writing otherwise. A handler that returns an
// error has changed nothing.
type handler func(c *call, w *world) (reply, error)

// operation is one row of the platform's route table.
type operation struct {
	id     string
	method string
	route  string // below the base address, parameters in braces
	key    string // what the answer is wrapped in
	list   bool
	scope  string
	// assumed marks scopes that the API does not state for the endpoint.
	assumed bool
	query   []string // parameters it knows, besides the page of a list
	handle  handler
	// open operations carry their own credentials in place of a token.
	open bool
	// page is set on operations that a browser visits.
	page pageHandler

	needs []string // the scope as a list; filled in when the table is compiled
}

const (
	scopeCatalog      = "catalog:read"
	scopeClinicRead   = "clinic:read"
	scopeClinicWrite  = "clinic:write"
	scopePatientsRead = "patients:read"
	scopePatientsEdit = "patients:write"
	scopePlanHistory  = "patients:treatment_plan_history"
	scopeOrderHistory = "patients:order_history"
)

var (
	eventQuery  = []string{"created_at", "event_type", "sort_by", "order_by"}
	searchQuery = []string{"query", "brand_id", "allergen_ids[]", "ingredient_ids[]", "supplement_type_ids[]", "third_party_certification_ids[]"}
)

// operations is the whole API: 61 endpoints and the authorize page, in the
// order of the API's sections. It is a function and not a variable because
// handlers refer to the table in turn.
func operations() []operation {
	return []operation{
		// OAuth
		{id: "oauth.authorize", method: "GET", route: "/oauth/authorize", open: true, page: authorizePage, query: []string{"client_id", "redirect_uri", "response_type", "state", "scope"}},
		{id: "oauth.authorize", method: "POST", route: "/oauth/authorize", open: true, page: authorizeAnswer},
		{id: "oauth.token", method: "POST", route: "/oauth/token", key: "oauth", open: true, handle: createToken},
		{id: "oauth.revoke", method: "POST", route: "/oauth/revoke", open: true, handle: revokeToken},

		// Dynamic links (quick integration)
		{id: "dynamic_links.get", method: "GET", route: "/clinic/dynamic_links/treatment_plans/{treatment_plan_id}", key: "dynamic_links", scope: scopeClinicRead, assumed: true, handle: getDynamicLink},
		{id: "dynamic_links.new", method: "GET", route: "/clinic/dynamic_links/treatment_plans", scope: scopeClinicRead, assumed: true, handle: newDynamicLink},
		{id: "dynamic_links.create", method: "POST", route: "/clinic/dynamic_links/treatment_plans", key: "dynamic_links", scope: scopeClinicWrite, handle: createDynamicLink},

		// Catalog
		{id: "allergens.list", method: "GET", route: "/catalog/allergens", key: "allergens", list: true, scope: scopeCatalog, assumed: true, handle: listTerms(allergens)},
		{id: "allergens.get", method: "GET", route: "/catalog/allergens/{id}", key: "allergen", scope: scopeCatalog, assumed: true, handle: getTerm(allergens)},
		{id: "brands.list", method: "GET", route: "/catalog/brands", key: "brands", list: true, scope: scopeCatalog, assumed: true, query: []string{"available", "clinic_permitted"}, handle: listBrands},
		{id: "brands.get", method: "GET", route: "/catalog/brands/{id}", key: "brand", scope: scopeCatalog, assumed: true, handle: getBrand},
		{id: "ingredients.list", method: "GET", route: "/catalog/ingredients", key: "ingredients", list: true, scope: scopeCatalog, assumed: true, handle: listTerms(ingredients)},
		{id: "ingredients.get", method: "GET", route: "/catalog/ingredients/{id}", key: "ingredient", scope: scopeCatalog, assumed: true, handle: getTerm(ingredients)},
		{id: "practitioner_types.list", method: "GET", route: "/catalog/practitioner_types", key: "practitioner_types", list: true, scope: scopeCatalog, assumed: true, handle: listPractitionerTypes},
		{id: "products.list", method: "GET", route: "/catalog/products", key: "products", list: true, scope: scopeCatalog, assumed: true, handle: listProducts},
		{id: "products.get", method: "GET", route: "/catalog/products/{id}", key: "product", scope: scopeCatalog, assumed: true, query: []string{"practitioner_id"}, handle: getProduct},
		{id: "products.search", method: "GET", route: "/catalog/search/products", key: "products", list: true, scope: scopeCatalog, assumed: true, query: searchQuery, handle: searchProducts},
		{id: "products.similar", method: "GET", route: "/catalog/products/{product_id}/similar", key: "products", list: true, scope: scopeCatalog, assumed: true, handle: listSimilarProducts},
		{id: "supplement_types.list", method: "GET", route: "/catalog/supplement_types", key: "supplement_types", list: true, scope: scopeCatalog, assumed: true, handle: listTerms(supplementTypes)},
		{id: "supplement_types.get", method: "GET", route: "/catalog/supplement_types/{id}", key: "supplement_type", scope: scopeCatalog, assumed: true, handle: getTerm(supplementTypes)},
		{id: "third_party_certifications.list", method: "GET", route: "/catalog/third_party_certifications", key: "third_party_certifications", list: true, scope: scopeCatalog, assumed: true, handle: listTerms(certifications)},
		{id: "third_party_certifications.get", method: "GET", route: "/catalog/third_party_certifications/{id}", key: "third_party_certification", scope: scopeCatalog, assumed: true, handle: getTerm(certifications)},
		{id: "variants.get", method: "GET", route: "/catalog/variants/{id}", key: "variant", scope: scopeCatalog, assumed: true, handle: getVariant},

		// Clinic, addresses, categories
		{id: "clinic.get", method: "GET", route: "/clinic", key: "clinic", scope: scopeClinicRead, assumed: true, handle: getClinic},
		{id: "addresses.list", method: "GET", route: "/clinic/patients/{patient_id}/addresses", key: "addresses", list: true, scope: scopePatientsRead, assumed: true, handle: listAddresses},
		{id: "categories.list", method: "GET", route: "/clinic/categories", key: "categories", list: true, scope: scopeClinicRead, assumed: true, handle: listCategories},
		{id: "categories.get", method: "GET", route: "/clinic/categories/{id}", key: "category", scope: scopeClinicRead, assumed: true, handle: getCategory},
		{id: "categories.products", method: "GET", route: "/clinic/categories/{category_id}/products", key: "products", list: true, scope: scopeClinicRead, assumed: true, handle: listCategoryProducts},

		// Orders
		{id: "orders.list_for_patient", method: "GET", route: "/clinic/patients/{patient_id}/orders", key: "orders", list: true, scope: scopeOrderHistory, assumed: true, handle: listPatientOrders},
		{id: "orders.get", method: "GET", route: "/clinic/orders/{id}", key: "order", scope: scopeOrderHistory, assumed: true, handle: getOrder},
		{id: "orders.list", method: "GET", route: "/clinic/orders", key: "orders", list: true, scope: scopeOrderHistory, assumed: true, query: []string{"patient_id", "treatment_plan_id", "completed_at", "order_number", "sort_by", "order_by"}, handle: listOrders},

		// Patients
		{id: "patients.list", method: "GET", route: "/clinic/patients", key: "patients", list: true, scope: scopePatientsRead, assumed: true, handle: listPatients},
		{id: "patients.get", method: "GET", route: "/clinic/patients/{id}", key: "patient", scope: scopePatientsRead, assumed: true, handle: getPatient},
		{id: "patients.create", method: "POST", route: "/clinic/patients", key: "patient", scope: scopePatientsEdit, assumed: true, handle: createPatient},
		{id: "patients.update", method: "PATCH", route: "/clinic/patients/{id}", key: "patient", scope: scopePatientsEdit, assumed: true, handle: updatePatient},
		{id: "patients.search", method: "GET", route: "/clinic/search/patients", key: "patients", list: true, scope: scopePatientsRead, assumed: true, query: []string{"query"}, handle: searchPatients},

		// Practitioners
		{id: "practitioners.list", method: "GET", route: "/clinic/practitioners", key: "practitioners", list: true, scope: scopeClinicRead, assumed: true, handle: listPractitioners},
		{id: "practitioners.get", method: "GET", route: "/clinic/practitioners/{id}", key: "practitioner", scope: scopeClinicRead, assumed: true, handle: getPractitioner},
		{id: "practitioners.create", method: "POST", route: "/clinic/practitioners", key: "practitioner", scope: scopeClinicWrite, assumed: true, handle: createPractitioner},
		{id: "practitioners.update", method: "PATCH", route: "/clinic/practitioners/{id}", key: "practitioner", scope: scopeClinicWrite, assumed: true, handle: updatePractitioner},

		// Staff
		{id: "staff.list", method: "GET", route: "/clinic/staff", key: "staff", list: true, scope: scopeClinicRead, assumed: true, handle: listStaff},
		{id: "staff.get", method: "GET", route: "/clinic/staff/{id}", key: "staff", scope: scopeClinicRead, assumed: true, handle: getStaff},
		{id: "staff.create", method: "POST", route: "/clinic/staff", key: "staff", scope: scopeClinicWrite, assumed: true, handle: createStaff},
		{id: "staff.update", method: "PATCH", route: "/clinic/staff/{id}", key: "staff", scope: scopeClinicWrite, assumed: true, handle: updateStaff},

		// Protocols and templates
		{id: "protocols.get", method: "GET", route: "/clinic/protocols/{id}", key: "protocol", scope: scopeClinicRead, assumed: true, handle: getProtocol},
		{id: "protocols.list", method: "GET", route: "/clinic/practitioners/{practitioner_id}/protocols", key: "protocols", list: true, scope: scopeClinicRead, assumed: true, query: []string{"current_state", "ownership_type", "sort_by", "order_by"}, handle: listProtocols},
		{id: "templates.get", method: "GET", route: "/clinic/templates/{id}", key: "template", scope: scopeClinicRead, assumed: true, handle: getTemplate},
		{id: "templates.list", method: "GET", route: "/clinic/practitioners/{practitioner_id}/templates", key: "templates", list: true, scope: scopeClinicRead, assumed: true, handle: listTemplates},

		// Treatment plans
		{id: "treatment_plans.list", method: "GET", route: "/clinic/patients/{patient_id}/treatment_plans", key: "treatment_plans", list: true, scope: scopePatientsRead, assumed: true, query: []string{"sort_by", "order_by"}, handle: listPlans},
		{id: "treatment_plans.create", method: "POST", route: "/clinic/patients/{patient_id}/treatment_plans", key: "treatment_plan", scope: scopeClinicWrite, handle: createPlan},
		{id: "treatment_plans.get", method: "GET", route: "/clinic/treatment_plans/{id}", key: "treatment_plan", scope: scopePatientsRead, assumed: true, handle: getPlan},
		{id: "treatment_plans.update", method: "PATCH", route: "/clinic/treatment_plans/{id}", key: "treatment_plan", scope: scopeClinicWrite, assumed: true, handle: updatePlan},
		{id: "treatment_plans.cancel", method: "PATCH", route: "/clinic/treatment_plans/{id}/cancel", key: "treatment_plan", scope: scopeClinicWrite, assumed: true, handle: cancelPlan},
		{id: "treatment_plans.activate", method: "PATCH", route: "/clinic/treatment_plans/{id}/activate", key: "treatment_plan", scope: scopeClinicWrite, assumed: true, handle: activatePlan},
		{id: "treatment_plans.in_office_checkout", method: "POST", route: "/clinic/treatment_plans/{id}/in_office_checkout", key: "in_office_checkout", scope: scopeClinicWrite, assumed: true, handle: checkoutPlan},

		// Metadata: the scope depends on the type that is asked for
		{id: "metadata.list", method: "GET", route: "/clinic/metadata", key: "metadata", list: true, query: []string{"id", "type"}, assumed: true, handle: listMetadata},

		// Events: a single event's scope is that of its type
		{id: "events.get", method: "GET", route: "/events/{id}", key: "event", assumed: true, handle: getEvent},
		{id: "events.list_clinic_keys", method: "GET", route: "/events/clinic_keys", key: "events", list: true, scope: scopeClinicRead, assumed: true, query: eventQuery, handle: listEvents("clinic_key")},
		{id: "events.list_patients", method: "GET", route: "/events/patients", key: "events", list: true, scope: scopePatientsRead, assumed: true, query: eventQuery, handle: listEvents("patient")},
		{id: "events.list_treatment_plans", method: "GET", route: "/events/treatment_plans", key: "events", list: true, scope: scopePlanHistory, assumed: true, query: eventQuery, handle: listEvents("treatment_plan")},
		{id: "events.list_orders", method: "GET", route: "/events/orders", key: "events", list: true, scope: scopeOrderHistory, assumed: true, query: eventQuery, handle: listEvents("order")},
		{id: "events.list_products", method: "GET", route: "/events/products", key: "events", list: true, scope: scopeCatalog, assumed: true, query: eventQuery, handle: listEvents("product")},

		// Webhook deliveries
		{id: "webhook_deliveries.list", method: "GET", route: "/webhooks/deliveries", key: "webhook_deliveries", list: true, scope: scopeCatalog, assumed: true, query: []string{"attempted_at", "event_id", "successfully_delivered", "sort_by", "order_by"}, handle: listDeliveries},
	}
}
