package operations

import (
	"errors"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Scope describes a scope to the person who is asked to grant it.
type Scope struct {
	name        string
	Title       string
	Description string
	members     []string // of a group name
}

// scopeTable is every scope of the API. API section: "Authentication" 7. That a
// group name grants all of its members is an assumption.
var scopeTable = []Scope{
	{name: ScopeCatalog, Title: "Browse the catalog", Description: "See brands, products and packs, and what they cost."},
	{name: ScopeClinicRead, Title: "See your clinic", Description: "Read the clinic's account, practitioners, staff and protocols."},
	{name: scopeClinicWrite, Title: "Work on behalf of your clinic", Description: "Add and edit practitioners and staff, and write treatment plans for the clinic's practitioners."},
	{name: ScopePatientsRead, Title: "See your patients", Description: "Read patient records, addresses and the treatment plans made by this application."},
	{name: ScopePatientsEdit, Title: "Add and edit patients", Description: "Create patient records and change their details."},
	{name: ScopePlanHistory, Title: "See past treatment plans", Description: "Read treatment plans that were made elsewhere, including the earlier ones."},
	{name: ScopeOrderHistory, Title: "See orders", Description: "Read what patients ordered, when, and what they paid."},
	{name: "clinic", Title: "Your clinic", Description: "Everything above about the clinic.", members: []string{ScopeClinicRead, scopeClinicWrite}},
	{name: "patients", Title: "Your patients", Description: "Everything above about patients.", members: []string{ScopePatientsRead, ScopePatientsEdit, ScopePlanHistory, ScopeOrderHistory}},
}

// AllScopes is what an application has unless told otherwise.
func AllScopes() []string {
	var names []string
	for _, s := range scopeTable {
		if s.members == nil {
			names = append(names, s.name)
		}
	}
	return names
}

// Scopes are the scopes of the API, and the names of the groups clinic and patients,
// which stand for all scopes of theirs. API section: "Authentication" 7.
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

// CheckScopes refuses names the API does not have.
func CheckScopes(names []string) error {
	for _, name := range names {
		if _, ok := FindScope(name); !ok {
			return errors.New("dispensarytest: " + closestmatch.Unknown("scope", name, Scopes()))
		}
	}
	return nil
}

// Granted is what a list of scopes allows, group names opened up.
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

// MergeScopes adds scopes that are not there yet.
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
