// Package ids validates the ids that stores of tokens look for.
package ids

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// maxBytes keeps users and clinics inside the index limits of every usual database.
const maxBytes = 255

// Validate returns an [*api.ArgumentError] of field if a store does not have to accept the id.
func Validate(field, id string) error {
	var reason string
	switch {
	case len(id) > maxBytes:
		reason = fmt.Sprintf("is longer than %d bytes", maxBytes)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		reason = "must be UTF-8 without control characters"
	case strings.TrimSpace(id) != id:
		reason = "must not begin or end with space" // some databases compare such keys as equal
	default:
		return nil
	}
	return &api.ArgumentError{Field: field, Reason: reason}
}

// ValidateClinic returns an [*api.ArgumentError] if a store does not have to accept the id of the
// clinic.
func ValidateClinic(clinic oauth.Clinic) error { return Validate("oauth.Clinic.ID", clinic.ID) }
