package api

import (
	"context"
	"strings"
	"time"
	"unicode"
)

// AccessToken is a bearer token, bound to the environment that issued it. It never prints its
// secret.
// API section: "Authentication" 1 and "Oauth token".
type AccessToken struct {
	// Secret is the bearer token.
	Secret Secret

	// Environment is the environment that issued the token. A client of another environment, or
	// of none, rejects the token with [ErrWrongEnvironment].
	Environment Environment

	// Account is the account of the platform that the token acts for. The zero value means
	// unknown.
	Account Account

	// ExpiresAt is the expiry time of the token. Zero means unknown.
	ExpiresAt time.Time

	// Scope contains the granted scopes as the platform wrote them. Empty means unknown. The
	// API does not document the separator. Assumption: spaces (RFC 6749, section 3.3). Commas
	// and plus signs are read too.
	Scope string
}

// Scopes returns the granted scopes one by one. It is empty if they are unknown.
func (t AccessToken) Scopes() []string { return strings.FieldsFunc(t.Scope, separatesScopes) }

func separatesScopes(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '+' }

// HasScope reports whether the token was granted scope or its group. Assumption: a group
// grants all of its scopes, for example clinic grants clinic:read and clinic:write. The API
// names the groups without a description. HasScope is false if the scopes are unknown.
// API section: "Authentication" 7.
func (t AccessToken) HasScope(scope string) bool {
	group, _, _ := strings.Cut(scope, ":")
	for granted := range strings.FieldsFuncSeq(t.Scope, separatesScopes) { // runs for every call, so it must not allocate
		if granted == scope || granted == group {
			return true
		}
	}
	return false
}

// TokenSource returns the access token for each call. Implementations must be safe for
// concurrent use, return quickly if they have a valid token, and stop waiting when ctx ends.
type TokenSource interface {
	// Token returns a token that is valid now. It refreshes the token first if necessary.
	Token(ctx context.Context) (AccessToken, error)
}

// TokenRefresher is a [TokenSource] that can replace a token after the platform rejected it. A
// client calls Refresh at most once per call. With a plain TokenSource, a 401 is final.
type TokenRefresher interface {
	TokenSource

	// Refresh returns a token newer than rejected, for which the platform responded with 401.
	// The token acts for the same Account, or the call fails with [ErrAccountChanged].
	// If another caller has already replaced rejected, Refresh returns that newer token and
	// sends nothing. It returns rejected itself if a refresh is not expected to help now. The
	// 401 is then final.
	Refresh(ctx context.Context, rejected AccessToken) (AccessToken, error)
}

// Account is an account of the platform in one environment. It is comparable. Package
// oauth/tokens copies it from the stored record of the user. An empty field is unknown.
// API section: "Oauth token" (resource_owner) and "Clinic".
type Account struct {
	// OwnerType and OwnerID are the type and ID of the owner of the token, for example
	// "Practitioner". Both are empty for a token that acts for a clinic as any of its users.
	OwnerType, OwnerID string

	// ClinicID is the platform's ID of the owner's clinic.
	ClinicID string
}

// String returns the owner and the clinic, for example "Practitioner 17 of clinic 4".
func (a Account) String() string {
	owner := strings.TrimSpace(a.OwnerType + " " + a.OwnerID)
	switch {
	case owner == "" && a.ClinicID == "":
		return "unknown account"
	case a.ClinicID == "":
		return owner
	case owner == "":
		return "clinic " + a.ClinicID
	}
	return owner + " of clinic " + a.ClinicID
}

// AccountChangedError reports that the user of a client has connected another account of the
// platform while the client was working. It matches [ErrAccountChanged].
//
// A call, a list, an Ensure call and a pass of the reconciler each act for one account. The
// request as the new account was not sent. If the platform rejected an earlier request of the
// call with 401, the surrounding [Error] matches [ErrNotApplied], and otherwise [ErrNotSent].
type AccountChangedError struct {
	// Before is the account at the start of the work. Now is the user's account now.
	Before, Now Account
}

// Error names both accounts.
func (e *AccountChangedError) Error() string {
	if e == nil {
		return nilText
	}
	return ErrAccountChanged.Error() + ": " + e.Now.String() + " instead of " + e.Before.String()
}

// Is reports whether target is [ErrAccountChanged].
func (e *AccountChangedError) Is(target error) bool { return e != nil && target == ErrAccountChanged }

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
