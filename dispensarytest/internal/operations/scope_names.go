package operations

const (
	ScopeCatalog      = "catalog:read"
	ScopeClinicRead   = "clinic:read"
	scopeClinicWrite  = "clinic:write"
	ScopePatientsRead = "patients:read"
	ScopePatientsEdit = "patients:write"
	ScopePlanHistory  = "patients:treatment_plan_history"
	ScopeOrderHistory = "patients:order_history"
)
