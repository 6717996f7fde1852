package console

import (
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// day writes the day of a time of the platform.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// exact writes a time as the control API reads it.
func exact(t time.Time) string { return t.Format(time.RFC3339Nano) }

// short shows the beginning of an id or a token; the whole is in its title.
func short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return id[:8] + "…"
}

// quoted is a word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func or(value, fallback string) string {
	if strings.TrimSpace(value) == "" {
		return fallback
	}
	return value
}

// nameOf is the name of a patient, or the e-mail address: a patient that a dynamic link
// made may have no name.
func nameOf(p model.Patient) string { return or(p.FirstName+" "+p.LastName, p.Email) }
