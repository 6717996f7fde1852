package behavior

import (
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
)

// Choice is a point that the API leaves open, with the behaviors that an integration
// has to work with.
type Choice struct {
	Name     string
	Section  string    // of the API
	Why      string    // what is left open, and where the default comes from
	Variants []Variant // the first is the default

	// Operations are those whose answers a variant can change: "patients.create". It
	// is empty for what is about events and webhooks alone.
	Operations []string
}

// Variant is one way to read a [Choice].
type Variant struct {
	Name    string
	Meaning string
	apply   func(*Set)
}

// Choices returns every point that can be read in more than one way, sorted by
// name. They are a copy.
func Choices() []Choice {
	all := slices.Clone(choiceTable())
	for i := range all {
		all[i].Variants, all[i].Operations = slices.Clone(all[i].Variants), slices.Clone(all[i].Operations)
	}
	slices.SortFunc(all, func(a, b Choice) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// sets makes the function of a variant that sets one field.
func sets[T any](field func(*Set) *T, to T) func(*Set) {
	return func(r *Set) { *field(r) = to }
}

// choiceTable is the table, made once in a process.
var choiceTable = sync.OnceValue(func() []Choice {
	all := slices.Concat(answerChoices(), listChoices(), tokenChoices(), planChoices(), eventChoices(), webhookChoices(), logChoices())
	touched := TouchedBy()
	for i := range all {
		for _, op := range operations.All() {
			if touches := touched[all[i].Name]; touches != nil && touches(op) && !slices.Contains(all[i].Operations, op.ID) {
				all[i].Operations = append(all[i].Operations, op.ID)
			}
		}
	}
	return all
})

func choice(name, section, why string, variants []Variant) Choice {
	return Choice{Name: name, Section: section, Why: why, Variants: variants}
}

func answerChoices() []Choice {
	shape := func(r *Set) *ErrorShape { return &r.ErrorShape }
	return []Choice{
		choice("success-status", "Endpoints", "Success codes are not shown; 201 is what integrators of such services see for what was created.", []Variant{
			{"201-for-created", "201 for created patients, practitioners, staff, plans and checkouts", func(r *Set) { r.AlwaysOK = false }},
			{"always-200", "200 for everything", func(r *Set) { r.AlwaysOK = true }},
		}),
		choice("error-shape", "Errors 6", "The body of errors is not shown; several shapes are seen, which follow the status.", []Variant{
			{"by-status", "error as a list with 422, as a text with 401 and 403, with the status otherwise", sets(shape, ShapeByStatus)},
			{"text", `{"error":"…"} for every status`, sets(shape, ShapeText)},
			{"status-and-text", `{"status":…,"error":"…"} for every status`, sets(shape, ShapeStatus)},
			{"coded-list", `{"errors":[{"code":"…","message":"…"}]} for every status`, sets(shape, ShapeCoded)},
		}),
		statusChoice("validation-status", "Errors 7", "The status of validation failures is not shown.", func(r *Set) *int { return &r.Validation }, 422, 400),
		statusChoice("wrong-state-status", "Errors 7", "The status for a wrong state, such as activating what is no draft, is not shown.", func(r *Set) *int { return &r.WrongState }, 422, 409),
		statusChoice("missing-scope-status", "Errors 7", "The status for a forbidden scope is not shown.", func(r *Set) *int { return &r.MissingScope }, 403, 404),
		statusChoice("plain-http-status", "Errors 1", "Plain HTTP produces an error; which one is not said.", func(r *Set) *int { return &r.PlainHTTP }, 403, 400),
		choice("empty-values", "Resources and their fields", "Whether fields without a value are null or left out is not shown.", []Variant{
			{"null", "null", func(r *Set) { r.DropNulls = false }},
			{"absent", "left out, but for those of meta", func(r *Set) { r.DropNulls = true }},
		}),
		choice("unknown-fields", "Endpoints", "What becomes of unknown body fields is not said. RFC 6749 has the token endpoint ignore them, whatever the variant.", []Variant{
			{"ignored", "they change nothing; the Journal has them", func(r *Set) { r.RefuseUnread = false }},
			{"refused", "they are a validation failure", func(r *Set) { r.RefuseUnread = true }},
		}),
		choice("unknown-parameters", "Endpoints", "What becomes of unknown query parameters is not said. RFC 6749 has the token endpoint ignore them, whatever the variant.", []Variant{
			{"ignored", "they change nothing; the Journal has them", func(r *Set) { r.RefuseUnknown = false }},
			{"refused", "they are a validation failure", func(r *Set) { r.RefuseUnknown = true }},
		}),
		choice("rate-limit", "Limits", "Rate limits are not shown; one of 5,000 requests in a rolling 5 minutes is seen.", []Variant{
			{"off", "there is none", func(r *Set) { r.Limited = false }},
			{"5000-in-5m", "5,000 requests in a rolling 5 minutes, then 429", func(r *Set) { r.Limited = true }},
		}),
	}
}
