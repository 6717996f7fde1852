package api

import "strings"

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
