package httpapi

import "github.com/dispensary-go/dispensary/dispensarytest/internal/store"

// handlers returns what answers each operation, by its id.
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
		"addresses.list":                     listAddresses,
		"categories.list":                    listCategories,
		"categories.get":                     getCategory,
		"categories.products":                listCategoryProducts,
		"orders.list_for_patient":            listPatientOrders,
		"orders.get":                         getOrder,
		"orders.list":                        listOrders,
		"patients.list":                      listPatients,
		"patients.get":                       getPatient,
		"patients.create":                    createPatient,
		"patients.update":                    updatePatient,
		"patients.search":                    searchPatients,
		"practitioners.list":                 listPractitioners,
		"practitioners.get":                  ofClinic((*store.World).PractitionerOf, viewPractitioner),
		"practitioners.create":               createPractitioner,
		"practitioners.update":               updatePractitioner,
		"staff.list":                         listStaff,
		"staff.get":                          ofClinic((*store.World).StaffOf, viewStaff),
		"staff.create":                       createStaff,
		"staff.update":                       updateStaff,
		"protocols.get":                      ofClinic((*store.World).ProtocolOf, viewProtocol),
		"protocols.list":                     listProtocols,
		"templates.get":                      ofClinic((*store.World).ProtocolOf, viewTemplate),
		"templates.list":                     listTemplates,
		"treatment_plans.list":               listPlans,
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

// authorizePages are the handlers of the authorize page, by method.
func authorizePages() map[string]pageHandler {
	return map[string]pageHandler{
		"GET":  authorizePage,
		"POST": authorizeAnswer,
	}
}
