// Package ids validates the ids of users and clinics for token stores. All stores share its
// limits, so an id that one store accepts works in every other store.
package ids

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// maxBytes keeps the ids of users and clinics inside the index limits of all common databases.
const maxBytes = 255

// Validate returns an [*api.ArgumentError] for field if a store may reject the id: over 255
// bytes, invalid UTF-8, control characters, or space at either end. An empty id is valid.
func Validate(field, id string) error {
	var reason string
	switch {
	case len(id) > maxBytes:
		reason = fmt.Sprintf("is longer than %d bytes", maxBytes)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		reason = "must be UTF-8 without control characters"
	case strings.TrimSpace(id) != id:
		reason = "must not begin or end with space" // some databases ignore trailing space in comparisons
	default:
		return nil
	}
	return &api.ArgumentError{Field: field, Reason: reason}
}

// ValidateClinic returns the [*api.ArgumentError] of [Validate] for the id of the clinic.
func ValidateClinic(clinic oauth.Clinic) error { return Validate("oauth.Clinic.ID", clinic.ID) }
