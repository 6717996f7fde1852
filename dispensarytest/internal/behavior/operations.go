package behavior

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// TouchedBy says which operations' answers the behavior of an open point can change.
// Open points about events and webhooks are not in the map.
func TouchedBy() map[string]func(operations.Operation) bool {
	return map[string]func(operations.Operation) bool{
		"access-token-after-refresh": oneOf("oauth.token"),
		"array-filters":              oneOf("products.search"),
		"cancelled-plan-update":      oneOf("treatment_plans.update"),
		"checkout-state":             oneOf("treatment_plans.in_office_checkout"),
		"clinic-key-header":          takesToken,
		"default-page-size":          isList,
		"delivery-log":               oneOf("webhook_deliveries.list"),
		"draft-cancellation":         oneOf("treatment_plans.cancel"),
		"draft-invitation":           oneOf("treatment_plans.create", "treatment_plans.get", "treatment_plans.update", "metadata.list"),
		"draft-update":               oneOf("treatment_plans.update"),
		"empty-values":               answersJSON,
		"error-shape":                answersJSON,
		"event-times":                showsEventTimes,
		"expires-in":                 oneOf("oauth.token"),
		"incomplete-plan":            oneOf("treatment_plans.activate", "treatment_plans.update"),
		"integration-activation":     oneOf("clinic.get"),
		"link-practitioner":          oneOf("dynamic_links.create"),
		"metadata-type":              oneOf("metadata.list"),
		"missing-scope-status":       takesToken,
		"oversized-page":             isList,
		"page-beyond-last":           isList,
		"plain-http-status":          every,
		"product-event-clinic":       oneOf("webhook_deliveries.list"),
		"rate-limit":                 every,
		"refresh-rotation":           oneOf("oauth.token"),
		"refresh-token-revocation":   oneOf("oauth.revoke"),
		"revocation-reach":           oneOf("oauth.revoke"),
		"success-status": oneOf("patients.create", "practitioners.create", "staff.create",
			"treatment_plans.create", "treatment_plans.in_office_checkout"),
		"unanswered-status":        oneOf("webhook_deliveries.list"),
		"unknown-fields":           takesBody,
		"unknown-parameters":       takesToken,
		"unknown-token-revocation": oneOf("oauth.revoke"),
		"unsorted-lists":           func(op operations.Operation) bool { return op.List && op.ID != "products.similar" },
		"unwrapped-event-data":     oneOf("events.get", "webhook_deliveries.list"),
		"validation-status":        takesToken,
		"vendor-backorder":         oneOf("products.list", "products.get", "products.search", "products.similar", "categories.products"),
		"wrong-state-status": oneOf("dynamic_links.get", "treatment_plans.update", "treatment_plans.cancel",
			"treatment_plans.activate", "treatment_plans.in_office_checkout"),
	}
}

func oneOf(ids ...string) func(operations.Operation) bool {
	return func(op operations.Operation) bool { return slices.Contains(ids, op.ID) }
}

func every(operations.Operation) bool { return true }

func answersJSON(op operations.Operation) bool { return !op.Page }

func takesToken(op operations.Operation) bool { return !op.Open }

func takesBody(op operations.Operation) bool { return !op.Open && op.Method != http.MethodGet }

// showsEventTimes holds for what has the time of an event, or of the plan it was about.
func showsEventTimes(op operations.Operation) bool {
	return model.EventGroup(op.ID) == "events" || strings.HasPrefix(op.ID, "treatment_plans.") && op.ID != "treatment_plans.create" &&
		op.ID != "treatment_plans.in_office_checkout"
}

func isList(op operations.Operation) bool { return op.List }
