package console

import (
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// day returns the UTC date of a time.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// exact formats a time for the control API.
func exact(t time.Time) string { return t.Format(time.RFC3339Nano) }

// short shortens an id or a token to 8 characters if it is longer than 12.
func short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return id[:8] + "…"
}

func or(value, fallback string) string {
	if strings.TrimSpace(value) == "" {
		return fallback
	}
	return value
}

// nameOf returns the name of a patient. If it is empty, as for a patient from a dynamic link,
// it returns the email address.
func nameOf(p model.Patient) string { return or(p.FirstName+" "+p.LastName, p.Email) }
