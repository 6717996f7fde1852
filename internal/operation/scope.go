package operation

import "github.com/dispensary-go/dispensary/api"

// Scopes returns all scopes that this module knows, including scope groups.
func Scopes() []string {
	return []string{
		api.ScopeCatalogRead, api.ScopeClinic, api.ScopeClinicRead, api.ScopeClinicWrite, api.ScopePatients, api.ScopePatientsRead,
		api.ScopePatientsWrite, api.ScopeTreatmentPlanHistory, api.ScopeOrderHistory,
	}
}
