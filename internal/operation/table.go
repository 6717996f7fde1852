package operation

import "github.com/dispensary-go/dispensary/api"

// OAuth. API section: "OAuth" and "Authentication".
var (
	OAuthAuthorize = row(Operation{Name: "oauth.authorize", Method: "GET", Route: "/oauth/authorize"})
	OAuthToken     = row(Operation{Name: "oauth.token", Method: "POST", Route: "/oauth/token", Key: "oauth"})
	OAuthRevoke    = row(Operation{Name: "oauth.revoke", Method: "POST", Route: "/oauth/revoke"})
)

// Dynamic links. API section: "Dynamic links (quick integration)".
var (
	DynamicLinkGet    = row(Operation{Name: "dynamic_links.get", Method: "GET", Route: "/clinic/dynamic_links/treatment_plans/{treatment_plan_id}", Key: "dynamic_links", Scope: api.ScopeClinicRead})
	DynamicLinkNew    = row(Operation{Name: "dynamic_links.new", Method: "GET", Route: "/clinic/dynamic_links/treatment_plans", Scope: api.ScopeClinicRead})
	DynamicLinkCreate = row(Operation{Name: "dynamic_links.create", Method: "POST", Route: "/clinic/dynamic_links/treatment_plans", Key: "dynamic_links", Scope: api.ScopeClinicWrite, ScopeStated: true})
)

// Catalog. API section: "Catalog".
var (
	AllergenList                = row(Operation{Name: "allergens.list", Method: "GET", Route: "/catalog/allergens", Key: "allergens", List: true, Scope: api.ScopeCatalogRead})
	AllergenGet                 = row(Operation{Name: "allergens.get", Method: "GET", Route: "/catalog/allergens/{id}", Key: "allergen", Scope: api.ScopeCatalogRead})
	BrandList                   = row(Operation{Name: "brands.list", Method: "GET", Route: "/catalog/brands", Key: "brands", List: true, Scope: api.ScopeCatalogRead})
	BrandGet                    = row(Operation{Name: "brands.get", Method: "GET", Route: "/catalog/brands/{id}", Key: "brand", Scope: api.ScopeCatalogRead})
	IngredientList              = row(Operation{Name: "ingredients.list", Method: "GET", Route: "/catalog/ingredients", Key: "ingredients", List: true, Scope: api.ScopeCatalogRead})
	IngredientGet               = row(Operation{Name: "ingredients.get", Method: "GET", Route: "/catalog/ingredients/{id}", Key: "ingredient", Scope: api.ScopeCatalogRead})
	PractitionerTypeList        = row(Operation{Name: "practitioner_types.list", Method: "GET", Route: "/catalog/practitioner_types", Key: "practitioner_types", List: true, Scope: api.ScopeCatalogRead})
	ProductList                 = row(Operation{Name: "products.list", Method: "GET", Route: "/catalog/products", Key: "products", List: true, Scope: api.ScopeCatalogRead})
	ProductGet                  = row(Operation{Name: "products.get", Method: "GET", Route: "/catalog/products/{id}", Key: "product", Scope: api.ScopeCatalogRead})
	ProductSearch               = row(Operation{Name: "products.search", Method: "GET", Route: "/catalog/search/products", Key: "products", List: true, Scope: api.ScopeCatalogRead})
	ProductSimilar              = row(Operation{Name: "products.similar", Method: "GET", Route: "/catalog/products/{product_id}/similar", Key: "products", List: true, Scope: api.ScopeCatalogRead})
	SupplementTypeList          = row(Operation{Name: "supplement_types.list", Method: "GET", Route: "/catalog/supplement_types", Key: "supplement_types", List: true, Scope: api.ScopeCatalogRead})
	SupplementTypeGet           = row(Operation{Name: "supplement_types.get", Method: "GET", Route: "/catalog/supplement_types/{id}", Key: "supplement_type", Scope: api.ScopeCatalogRead})
	ThirdPartyCertificationList = row(Operation{Name: "third_party_certifications.list", Method: "GET", Route: "/catalog/third_party_certifications", Key: "third_party_certifications", List: true, Scope: api.ScopeCatalogRead})
	ThirdPartyCertificationGet  = row(Operation{Name: "third_party_certifications.get", Method: "GET", Route: "/catalog/third_party_certifications/{id}", Key: "third_party_certification", Scope: api.ScopeCatalogRead})
	VariantGet                  = row(Operation{Name: "variants.get", Method: "GET", Route: "/catalog/variants/{id}", Key: "variant", Scope: api.ScopeCatalogRead})
)

// Clinic, addresses, categories. API section: "Clinic, addresses, categories".
var (
	ClinicGet           = row(Operation{Name: "clinic.get", Method: "GET", Route: "/clinic", Key: "clinic", Scope: api.ScopeClinicRead})
	AddressList         = row(Operation{Name: "addresses.list", Method: "GET", Route: "/clinic/patients/{patient_id}/addresses", Key: "addresses", List: true, Scope: api.ScopePatientsRead})
	CategoryList        = row(Operation{Name: "categories.list", Method: "GET", Route: "/clinic/categories", Key: "categories", List: true, Scope: api.ScopeClinicRead})
	CategoryGet         = row(Operation{Name: "categories.get", Method: "GET", Route: "/clinic/categories/{id}", Key: "category", Scope: api.ScopeClinicRead})
	CategoryProductList = row(Operation{Name: "categories.products", Method: "GET", Route: "/clinic/categories/{category_id}/products", Key: "products", List: true, Scope: api.ScopeClinicRead})
)

// Orders. API section: "Orders".
var (
	PatientOrderList = row(Operation{Name: "orders.list_for_patient", Method: "GET", Route: "/clinic/patients/{patient_id}/orders", Key: "orders", List: true, Scope: api.ScopeOrderHistory})
	OrderGet         = row(Operation{Name: "orders.get", Method: "GET", Route: "/clinic/orders/{id}", Key: "order", Scope: api.ScopeOrderHistory})
	OrderList        = row(Operation{Name: "orders.list", Method: "GET", Route: "/clinic/orders", Key: "orders", List: true, Scope: api.ScopeOrderHistory})
)

// Patients. API section: "Patients".
var (
	PatientList   = row(Operation{Name: "patients.list", Method: "GET", Route: "/clinic/patients", Key: "patients", List: true, Scope: api.ScopePatientsRead})
	PatientGet    = row(Operation{Name: "patients.get", Method: "GET", Route: "/clinic/patients/{id}", Key: "patient", Scope: api.ScopePatientsRead})
	PatientCreate = row(Operation{Name: "patients.create", Method: "POST", Route: "/clinic/patients", Key: "patient", Scope: api.ScopePatientsWrite})
	PatientUpdate = row(Operation{Name: "patients.update", Method: "PATCH", Route: "/clinic/patients/{id}", Key: "patient", Scope: api.ScopePatientsWrite})
	PatientSearch = row(Operation{Name: "patients.search", Method: "GET", Route: "/clinic/search/patients", Key: "patients", List: true, Scope: api.ScopePatientsRead})
)

// Practitioners. API section: "Practitioners".
var (
	PractitionerList   = row(Operation{Name: "practitioners.list", Method: "GET", Route: "/clinic/practitioners", Key: "practitioners", List: true, Scope: api.ScopeClinicRead})
	PractitionerGet    = row(Operation{Name: "practitioners.get", Method: "GET", Route: "/clinic/practitioners/{id}", Key: "practitioner", Scope: api.ScopeClinicRead})
	PractitionerCreate = row(Operation{Name: "practitioners.create", Method: "POST", Route: "/clinic/practitioners", Key: "practitioner", Scope: api.ScopeClinicWrite})
	PractitionerUpdate = row(Operation{Name: "practitioners.update", Method: "PATCH", Route: "/clinic/practitioners/{id}", Key: "practitioner", Scope: api.ScopeClinicWrite})
)

// Staff. API section: "Staff".
var (
	StaffList   = row(Operation{Name: "staff.list", Method: "GET", Route: "/clinic/staff", Key: "staff", List: true, Scope: api.ScopeClinicRead})
	StaffGet    = row(Operation{Name: "staff.get", Method: "GET", Route: "/clinic/staff/{id}", Key: "staff", Scope: api.ScopeClinicRead})
	StaffCreate = row(Operation{Name: "staff.create", Method: "POST", Route: "/clinic/staff", Key: "staff", Scope: api.ScopeClinicWrite})
	StaffUpdate = row(Operation{Name: "staff.update", Method: "PATCH", Route: "/clinic/staff/{id}", Key: "staff", Scope: api.ScopeClinicWrite})
)

// Protocols and templates. API section: "Protocols and templates".
var (
	ProtocolGet  = row(Operation{Name: "protocols.get", Method: "GET", Route: "/clinic/protocols/{id}", Key: "protocol", Scope: api.ScopeClinicRead})
	ProtocolList = row(Operation{Name: "protocols.list", Method: "GET", Route: "/clinic/practitioners/{practitioner_id}/protocols", Key: "protocols", List: true, Scope: api.ScopeClinicRead})
	TemplateGet  = row(Operation{Name: "templates.get", Method: "GET", Route: "/clinic/templates/{id}", Key: "template", Scope: api.ScopeClinicRead, Deprecated: true})
	TemplateList = row(Operation{Name: "templates.list", Method: "GET", Route: "/clinic/practitioners/{practitioner_id}/templates", Key: "templates", List: true, Scope: api.ScopeClinicRead, Deprecated: true})
)

// Treatment plans. API section: "Treatment plans".
var (
	TreatmentPlanList     = row(Operation{Name: "treatment_plans.list", Method: "GET", Route: "/clinic/patients/{patient_id}/treatment_plans", Key: "treatment_plans", List: true, Scope: api.ScopePatientsRead})
	TreatmentPlanCreate   = row(Operation{Name: "treatment_plans.create", Method: "POST", Route: "/clinic/patients/{patient_id}/treatment_plans", Key: "treatment_plan", Scope: api.ScopeClinicWrite + " " + api.ScopePatientsRead, ScopeStated: true})
	TreatmentPlanGet      = row(Operation{Name: "treatment_plans.get", Method: "GET", Route: "/clinic/treatment_plans/{id}", Key: "treatment_plan", Scope: api.ScopePatientsRead})
	TreatmentPlanUpdate   = row(Operation{Name: "treatment_plans.update", Method: "PATCH", Route: "/clinic/treatment_plans/{id}", Key: "treatment_plan", Scope: api.ScopeClinicWrite})
	TreatmentPlanCancel   = row(Operation{Name: "treatment_plans.cancel", Method: "PATCH", Route: "/clinic/treatment_plans/{id}/cancel", Key: "treatment_plan", Scope: api.ScopeClinicWrite})
	TreatmentPlanActivate = row(Operation{Name: "treatment_plans.activate", Method: "PATCH", Route: "/clinic/treatment_plans/{id}/activate", Key: "treatment_plan", Scope: api.ScopeClinicWrite})
	TreatmentPlanCheckout = row(Operation{Name: "treatment_plans.in_office_checkout", Method: "POST", Route: "/clinic/treatment_plans/{id}/in_office_checkout", Key: "in_office_checkout", Scope: api.ScopeClinicWrite})
)

// Metadata. API section: "Metadata".
var (
	MetadataList = row(Operation{Name: "metadata.list", Method: "GET", Route: "/clinic/metadata", Key: "metadata", List: true, Scope: api.ScopeClinicRead, ScopeVaries: true})
)

// Events. API section: "Events". The scope of each group is derived from the content of its
// payload.
var (
	EventGet               = row(Operation{Name: "events.get", Method: "GET", Route: "/events/{id}", Key: "event", Scope: api.ScopeCatalogRead, ScopeVaries: true})
	ClinicKeyEventList     = row(Operation{Name: "events.list_clinic_keys", Method: "GET", Route: "/events/clinic_keys", Key: "events", List: true, Scope: api.ScopeClinicRead})
	PatientEventList       = row(Operation{Name: "events.list_patients", Method: "GET", Route: "/events/patients", Key: "events", List: true, Scope: api.ScopePatientsRead})
	TreatmentPlanEventList = row(Operation{Name: "events.list_treatment_plans", Method: "GET", Route: "/events/treatment_plans", Key: "events", List: true, Scope: api.ScopeTreatmentPlanHistory})
	OrderEventList         = row(Operation{Name: "events.list_orders", Method: "GET", Route: "/events/orders", Key: "events", List: true, Scope: api.ScopeOrderHistory})
	ProductEventList       = row(Operation{Name: "events.list_products", Method: "GET", Route: "/events/products", Key: "events", List: true, Scope: api.ScopeCatalogRead})
)

// Webhook deliveries. API section: "Webhook deliveries".
var (
	WebhookDeliveryList = row(Operation{Name: "webhook_deliveries.list", Method: "GET", Route: "/webhooks/deliveries", Key: "webhook_deliveries", List: true, Scope: api.ScopeCatalogRead})
)
