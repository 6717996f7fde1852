package operations

import (
	"errors"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

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
