package console

import (
	"net/url"
	"slices"
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

// actLink is the address of an action's form, below the console's, with some
// fields filled in.
func actLink(id string, fields ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		query.Set(fields[i], fields[i+1])
	}
	if len(query) == 0 {
		return "actions/" + id
	}
	return "actions/" + id + "?" + query.Encode()
}

// quoted is a word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func or(value, fallback string) string {
	if strings.TrimSpace(value) == "" {
		return fallback
	}
	return value
}

// latest bounds what a form offers: a world may be large.
const latest = 100

// newest returns the latest rows, the newest first.
func newest[T any](rows []T) []T {
	rows = slices.Clone(rows[max(0, len(rows)-latest):])
	slices.Reverse(rows)
	return rows
}

// nameOf is the name of a patient, or the e-mail address: a patient that a dynamic link
// made may have no name.
func nameOf(p model.Patient) string { return or(p.FirstName+" "+p.LastName, p.Email) }
