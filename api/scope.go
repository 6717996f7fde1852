package api

// Scopes of an application and its access tokens, as the platform names them. The platform may
// add more. They are untyped strings, so you can use a new one before this module knows it.
// API section: "Authentication" 7.
const (
	// ScopeCatalogRead reads brands, products, variants and their attributes. All applications
	// have it.
	ScopeCatalogRead = "catalog:read"

	// ScopeClinic is the group of the clinic scopes. Assumption: it grants all of them. The API
	// names the group without a description.
	ScopeClinic = "clinic"

	// ScopeClinicRead reads the data of the clinic and its practitioners.
	ScopeClinicRead = "clinic:read"

	// ScopeClinicWrite adds and edits users, and acts on behalf of the clinic's practitioners.
	// Together with ScopePatientsRead it creates treatment plans.
	ScopeClinicWrite = "clinic:write"

	// ScopePatients is the group of the patients scopes. See ScopeClinic.
	ScopePatients = "patients"

	// ScopePatientsRead reads patients, and the treatment plans created through the API.
	ScopePatientsRead = "patients:read"

	// ScopePatientsWrite creates and updates patients.
	ScopePatientsWrite = "patients:write"

	// ScopeTreatmentPlanHistory reads past treatment plans, including those created outside the
	// API.
	ScopeTreatmentPlanHistory = "patients:treatment_plan_history"

	// ScopeOrderHistory reads the orders of a patient.
	ScopeOrderHistory = "patients:order_history"
)
