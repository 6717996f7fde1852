package api

// Scopes that an application has and its access tokens are granted, as the platform
// names them. More may come: they are text, so that a new one can be used before this
// module knows it.
// API section: "Authentication" 7.
const (
	// ScopeCatalogRead reads brands, products, variants and what describes them.
	// All applications have it.
	ScopeCatalogRead = "catalog:read"

	// ScopeClinic is the group of the clinic scopes. The API names it and says no
	// more; that it grants all of them is an assumption.
	ScopeClinic = "clinic"

	// ScopeClinicRead reads what is known of clinic and practitioners.
	ScopeClinicRead = "clinic:read"

	// ScopeClinicWrite adds and edits users and acts for the clinic's
	// practitioners; with ScopePatientsRead it creates treatment plans.
	ScopeClinicWrite = "clinic:write"

	// ScopePatients is the group of the patients scopes; see ScopeClinic.
	ScopePatients = "patients"

	// ScopePatientsRead reads patients, and the treatment plans made through the
	// API.
	ScopePatientsRead = "patients:read"

	// ScopePatientsWrite creates and updates patients.
	ScopePatientsWrite = "patients:write"

	// ScopeTreatmentPlanHistory reads treatment plans of the past, those made
	// outside the API included.
	ScopeTreatmentPlanHistory = "patients:treatment_plan_history"

	// ScopeOrderHistory reads the orders of a patient.
	ScopeOrderHistory = "patients:order_history"
)
