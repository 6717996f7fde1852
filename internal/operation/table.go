package operation

// Scopes, as the API names them. API section: "Authentication" 7.
const (
	ScopeCatalogRead          = "catalog:read"
	ScopeClinicRead           = "clinic:read"
	ScopeClinicWrite          = "clinic:write"
	ScopePatientsRead         = "patients:read"
	ScopePatientsWrite        = "patients:write"
	ScopeTreatmentPlanHistory = "patients:treatment_plan_history"
	ScopeOrderHistory         = "patients:order_history"
)

// OAuth. API section: "OAuth" and "Authentication".
var (
	OAuthAuthorize = row(Operation{Name: "oauth.authorize", Method: "GET", Route: "/oauth/authorize"})
	OAuthToken     = row(Operation{Name: "oauth.token", Method: "POST", Route: "/oauth/token", Key: "oauth"})
	OAuthRevoke    = row(Operation{Name: "oauth.revoke", Method: "POST", Route: "/oauth/revoke"})
)

// Dynamic links. API section: "Dynamic links (quick integration)".
var (
	DynamicLinkGet    = row(Operation{Name: "dynamic_links.get", Method: "GET", Route: "/clinic/dynamic_links/treatment_plans/{treatment_plan_id}", Key: "dynamic_links", Scope: ScopeClinicRead})
	DynamicLinkNew    = row(Operation{Name: "dynamic_links.new", Method: "GET", Route: "/clinic/dynamic_links/treatment_plans", Scope: ScopeClinicRead})
	DynamicLinkCreate = row(Operation{Name: "dynamic_links.create", Method: "POST", Route: "/clinic/dynamic_links/treatment_plans", Key: "dynamic_links", Scope: ScopeClinicWrite, ScopeStated: true})
)

// Catalog. API section: "Catalog".
var (
	AllergenList                = row(Operation{Name: "allergens.list", Method: "GET", Route: "/catalog/allergens", Key: "allergens", List: true, Scope: ScopeCatalogRead})
	AllergenGet                 = row(Operation{Name: "allergens.get", Method: "GET", Route: "/catalog/allergens/{id}", Key: "allergen", Scope: ScopeCatalogRead})
	BrandList                   = row(Operation{Name: "brands.list", Method: "GET", Route: "/catalog/brands", Key: "brands", List: true, Scope: ScopeCatalogRead})
	BrandGet                    = row(Operation{Name: "brands.get", Method: "GET", Route: "/catalog/brands/{id}", Key: "brand", Scope: ScopeCatalogRead})
	IngredientList              = row(Operation{Name: "ingredients.list", Method: "GET", Route: "/catalog/ingredients", Key: "ingredients", List: true, Scope: ScopeCatalogRead})
	IngredientGet               = row(Operation{Name: "ingredients.get", Method: "GET", Route: "/catalog/ingredients/{id}", Key: "ingredient", Scope: ScopeCatalogRead})
	PractitionerTypeList        = row(Operation{Name: "practitioner_types.list", Method: "GET", Route: "/catalog/practitioner_types", Key: "practitioner_types", List: true, Scope: ScopeCatalogRead})
	ProductList                 = row(Operation{Name: "products.list", Method: "GET", Route: "/catalog/products", Key: "products", List: true, Scope: ScopeCatalogRead})
	ProductGet                  = row(Operation{Name: "products.get", Method: "GET", Route: "/catalog/products/{id}", Key: "product", Scope: ScopeCatalogRead})
	ProductSearch               = row(Operation{Name: "products.search", Method: "GET", Route: "/catalog/search/products", Key: "products", List: true, Scope: ScopeCatalogRead})
	ProductSimilar              = row(Operation{Name: "products.similar", Method: "GET", Route: "/catalog/products/{product_id}/similar", Key: "products", List: true, Scope: ScopeCatalogRead})
	SupplementTypeList          = row(Operation{Name: "supplement_types.list", Method: "GET", Route: "/catalog/supplement_types", Key: "supplement_types", List: true, Scope: ScopeCatalogRead})
	SupplementTypeGet           = row(Operation{Name: "supplement_types.get", Method: "GET", Route: "/catalog/supplement_types/{id}", Key: "supplement_type", Scope: ScopeCatalogRead})
	ThirdPartyCertificationList = row(Operation{Name: "third_party_certifications.list", Method: "GET", Route: "/catalog/third_party_certifications", Key: "third_party_certifications", List: true, Scope: ScopeCatalogRead})
	ThirdPartyCertificationGet  = row(Operation{Name: "third_party_certifications.get", Method: "GET", Route: "/catalog/third_party_certifications/{id}", Key: "third_party_certification", Scope: ScopeCatalogRead})
	VariantGet                  = row(Operation{Name: "variants.get", Method: "GET", Route: "/catalog/variants/{id}", Key: "variant", Scope: ScopeCatalogRead})
)

// Clinic, addresses, categories. API section: "Clinic, addresses, categories".
var (
	ClinicGet           = row(Operation{Name: "clinic.get", Method: "GET", Route: "/clinic", Key: "clinic", Scope: ScopeClinicRead})
	AddressList         = row(Operation{Name: "addresses.list", Method: "GET", Route: "/clinic/patients/{patient_id}/addresses", Key: "addresses", List: true, Scope: ScopePatientsRead})
	CategoryList        = row(Operation{Name: "categories.list", Method: "GET", Route: "/clinic/categories", Key: "categories", List: true, Scope: ScopeClinicRead})
	CategoryGet         = row(Operation{Name: "categories.get", Method: "GET", Route: "/clinic/categories/{id}", Key: "category", Scope: ScopeClinicRead})
	CategoryProductList = row(Operation{Name: "categories.products", Method: "GET", Route: "/clinic/categories/{category_id}/products", Key: "products", List: true, Scope: ScopeClinicRead})
)

// Orders. API section: "Orders".
var (
	PatientOrderList = row(Operation{Name: "orders.list_for_patient", Method: "GET", Route: "/clinic/patients/{patient_id}/orders", Key: "orders", List: true, Scope: ScopeOrderHistory})
	OrderGet         = row(Operation{Name: "orders.get", Method: "GET", Route: "/clinic/orders/{id}", Key: "order", Scope: ScopeOrderHistory})
	OrderList        = row(Operation{Name: "orders.list", Method: "GET", Route: "/clinic/orders", Key: "orders", List: true, Scope: ScopeOrderHistory})
)

// Patients. API section: "Patients".
var (
	PatientList   = row(Operation{Name: "patients.list", Method: "GET", Route: "/clinic/patients", Key: "patients", List: true, Scope: ScopePatientsRead})
	PatientGet    = row(Operation{Name: "patients.get", Method: "GET", Route: "/clinic/patients/{id}", Key: "patient", Scope: ScopePatientsRead})
	PatientCreate = row(Operation{Name: "patients.create", Method: "POST", Route: "/clinic/patients", Key: "patient", Scope: ScopePatientsWrite})
	PatientUpdate = row(Operation{Name: "patients.update", Method: "PATCH", Route: "/clinic/patients/{id}", Key: "patient", Scope: ScopePatientsWrite})
	PatientSearch = row(Operation{Name: "patients.search", Method: "GET", Route: "/clinic/search/patients", Key: "patients", List: true, Scope: ScopePatientsRead})
)

// Practitioners. API section: "Practitioners".
var (
	PractitionerList   = row(Operation{Name: "practitioners.list", Method: "GET", Route: "/clinic/practitioners", Key: "practitioners", List: true, Scope: ScopeClinicRead})
	PractitionerGet    = row(Operation{Name: "practitioners.get", Method: "GET", Route: "/clinic/practitioners/{id}", Key: "practitioner", Scope: ScopeClinicRead})
	PractitionerCreate = row(Operation{Name: "practitioners.create", Method: "POST", Route: "/clinic/practitioners", Key: "practitioner", Scope: ScopeClinicWrite})
	PractitionerUpdate = row(Operation{Name: "practitioners.update", Method: "PATCH", Route: "/clinic/practitioners/{id}", Key: "practitioner", Scope: ScopeClinicWrite})
)

// Staff. API section: "Staff".
var (
	StaffList   = row(Operation{Name: "staff.list", Method: "GET", Route: "/clinic/staff", Key: "staff", List: true, Scope: ScopeClinicRead})
	StaffGet    = row(Operation{Name: "staff.get", Method: "GET", Route: "/clinic/staff/{id}", Key: "staff", Scope: ScopeClinicRead})
	StaffCreate = row(Operation{Name: "staff.create", Method: "POST", Route: "/clinic/staff", Key: "staff", Scope: ScopeClinicWrite})
	StaffUpdate = row(Operation{Name: "staff.update", Method: "PATCH", Route: "/clinic/staff/{id}", Key: "staff", Scope: ScopeClinicWrite})
)

// Protocols and templates. API section: "Protocols and templates".
var (
	ProtocolGet  = row(Operation{Name: "protocols.get", Method: "GET", Route: "/clinic/protocols/{id}", Key: "protocol", Scope: ScopeClinicRead})
	ProtocolList = row(Operation{Name: "protocols.list", Method: "GET", Route: "/clinic/practitioners/{practitioner_id}/protocols", Key: "protocols", List: true, Scope: ScopeClinicRead})
	TemplateGet  = row(Operation{Name: "templates.get", Method: "GET", Route: "/clinic/templates/{id}", Key: "template", Scope: ScopeClinicRead, Deprecated: true})
	TemplateList = row(Operation{Name: "templates.list", Method: "GET", Route: "/clinic/practitioners/{practitioner_id}/templates", Key: "templates", List: true, Scope: ScopeClinicRead, Deprecated: true})
)

// Treatment plans. API section: "Treatment plans".
var (
	TreatmentPlanList     = row(Operation{Name: "treatment_plans.list", Method: "GET", Route: "/clinic/patients/{patient_id}/treatment_plans", Key: "treatment_plans", List: true, Scope: ScopePatientsRead})
	TreatmentPlanCreate   = row(Operation{Name: "treatment_plans.create", Method: "POST", Route: "/clinic/patients/{patient_id}/treatment_plans", Key: "treatment_plan", Scope: ScopeClinicWrite + " " + ScopePatientsRead, ScopeStated: true})
	TreatmentPlanGet      = row(Operation{Name: "treatment_plans.get", Method: "GET", Route: "/clinic/treatment_plans/{id}", Key: "treatment_plan", Scope: ScopePatientsRead})
	TreatmentPlanUpdate   = row(Operation{Name: "treatment_plans.update", Method: "PATCH", Route: "/clinic/treatment_plans/{id}", Key: "treatment_plan", Scope: ScopeClinicWrite})
	TreatmentPlanCancel   = row(Operation{Name: "treatment_plans.cancel", Method: "PATCH", Route: "/clinic/treatment_plans/{id}/cancel", Key: "treatment_plan", Scope: ScopeClinicWrite})
	TreatmentPlanActivate = row(Operation{Name: "treatment_plans.activate", Method: "PATCH", Route: "/clinic/treatment_plans/{id}/activate", Key: "treatment_plan", Scope: ScopeClinicWrite})
	TreatmentPlanCheckout = row(Operation{Name: "treatment_plans.in_office_checkout", Method: "POST", Route: "/clinic/treatment_plans/{id}/in_office_checkout", Key: "in_office_checkout", Scope: ScopeClinicWrite})
)

// Metadata. API section: "Metadata".
var (
	MetadataList = row(Operation{Name: "metadata.list", Method: "GET", Route: "/clinic/metadata", Key: "metadata", List: true, Scope: ScopeClinicRead, ScopeVaries: true})
)

// Events. API section: "Events". Each group's scope follows from what the group's
// payload shows.
var (
	EventGet               = row(Operation{Name: "events.get", Method: "GET", Route: "/events/{id}", Key: "event", Scope: ScopeCatalogRead, ScopeVaries: true})
	ClinicKeyEventList     = row(Operation{Name: "events.list_clinic_keys", Method: "GET", Route: "/events/clinic_keys", Key: "events", List: true, Scope: ScopeClinicRead})
	PatientEventList       = row(Operation{Name: "events.list_patients", Method: "GET", Route: "/events/patients", Key: "events", List: true, Scope: ScopePatientsRead})
	TreatmentPlanEventList = row(Operation{Name: "events.list_treatment_plans", Method: "GET", Route: "/events/treatment_plans", Key: "events", List: true, Scope: ScopeTreatmentPlanHistory})
	OrderEventList         = row(Operation{Name: "events.list_orders", Method: "GET", Route: "/events/orders", Key: "events", List: true, Scope: ScopeOrderHistory})
	ProductEventList       = row(Operation{Name: "events.list_products", Method: "GET", Route: "/events/products", Key: "events", List: true, Scope: ScopeCatalogRead})
)

// Webhook deliveries. API section: "Webhook deliveries".
var (
	WebhookDeliveryList = row(Operation{Name: "webhook_deliveries.list", Method: "GET", Route: "/webhooks/deliveries", Key: "webhook_deliveries", List: true, Scope: ScopeCatalogRead})
)
