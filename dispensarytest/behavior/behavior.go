// Package behavior lists the points that the API leaves open, and the variants of each.
//
// The fake decides every point by a default, the first variant of its [Choice].
// Each other variant has a constant:
//
//	fake := dispensarytest.New(t, dispensarytest.WithBehavior(behavior.RefreshRotationGrace))
//	err := fake.SetBehavior(behavior.ProbeBeforeEach) // from the next delivery on
//
// A loop over [Choices] runs a test under every variant.
package behavior

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
)

// Variant is one way to decide a [Choice], as "choice=variant": [ProbeBeforeEach] is
// "probe=before-each". The platform rejects a Variant that is not in [Choices].
type Variant string

// Choice is a point that the API leaves open, with the variants that an integration has to
// work with.
type Choice struct {
	Name     string    // for example "probe"
	Section  string    // of the API
	Why      string    // the open question, and the origin of the default
	Variants []Variant // the first is the default

	// Operations are the operations whose responses a variant can change, for example
	// "patients.create". It is empty if only events and webhooks change.
	Operations []string
}

// Choices returns all choices, sorted by name.
func Choices() []Choice {
	var all []Choice
	for _, e := range entries() {
		c := e.Choice
		c.Variants, c.Operations = slices.Clone(c.Variants), slices.Clone(c.Operations)
		all = append(all, c)
	}
	return all
}

// Name returns the part after the choice: "before-each" of "probe=before-each".
func (v Variant) Name() string {
	_, name, _ := strings.Cut(string(v), "=")
	return name
}

// Meaning describes the platform's behavior under v. It is empty if v is not in [Choices].
func (v Variant) Meaning() string { return meanings()[v] }

var meanings = sync.OnceValue(func() map[Variant]string {
	all := make(map[Variant]string)
	for _, e := range entries() {
		for i, v := range e.Variants {
			all[v] = e.meanings[i]
		}
	}
	return all
})

// entry is a choice with the meanings of its variants.
type entry struct {
	Choice
	meanings []string
}

// ways lists the name and the meaning of each variant, the default first.
type ways [][2]string

// entries returns all choices, sorted by name. The caller must not change them.
var entries = sync.OnceValue(func() []entry {
	all := table()
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// point returns a choice. Its variants change responses of the operations for which touches
// returns true. If touches is nil, they change only events and webhooks.
func point(name, section, why string, touches func(operations.Operation) bool, variants ways) entry {
	e := entry{Choice: Choice{Name: name, Section: section, Why: why}}
	for _, v := range variants {
		e.Variants, e.meanings = append(e.Variants, Variant(name+"="+v[0])), append(e.meanings, v[1])
	}
	for _, op := range operations.All() {
		if touches != nil && touches(op) && !slices.Contains(e.Operations, op.ID) {
			e.Operations = append(e.Operations, op.ID)
		}
	}
	return e
}

// statuses are variants that differ in a status code.
func statuses(codes ...int) (variants ways) {
	for _, code := range codes {
		variants = append(variants, [2]string{strconv.Itoa(code), fmt.Sprintf("status %d", code)})
	}
	return variants
}

func table() []entry {
	return []entry{
		// Responses
		point("success-status", "Endpoints", "The spec does not show the status of a success. Integrators of similar services observe 201 after a creation.", oneOf("patients.create", "practitioners.create", "staff.create", "treatment_plans.create", "treatment_plans.in_office_checkout"),
			ways{{"201-for-created", "201 for created patients, practitioners, staff, plans and checkouts"}, {"always-200", "200 for everything"}}),
		point("error-shape", "Errors 6", "The spec does not show the body of an error. Integrators observe several shapes, depending on the status.", responsesJSON, ways{
			{"by-status", "error is a list with 422, a text with 401 and 403, and comes with the status otherwise"},
			{"text", `{"error":"…"} for every status`},
			{"status-and-text", `{"status":…,"error":"…"} for every status`},
			{"coded-list", `{"errors":[{"code":"…","message":"…"}]} for every status`},
		}),
		point("validation-status", "Errors 7", "The spec does not show the status of a validation failure.", takesToken, statuses(422, 400)),
		point("wrong-state-status", "Errors 7", "The spec does not show the status for a wrong state, such as the activation of an active plan.", oneOf("dynamic_links.get", "treatment_plans.update", "treatment_plans.cancel", "treatment_plans.activate", "treatment_plans.in_office_checkout"), statuses(422, 409)),
		point("missing-scope-status", "Errors 7", "The spec does not show the status for a missing scope.", takesToken, statuses(403, 404)),
		point("plain-http-status", "Errors 1", "The spec does not specify which error plain HTTP produces. With TLS on a socket, plain HTTP gets status 400 of the HTTP server under every variant.", every, statuses(403, 400)),
		point("empty-values", "Resources and their fields", "The spec does not show whether fields without a value are null or absent.", responsesJSON,
			ways{{"null", "null"}, {"absent", "absent, except for fields of meta"}}),
		point("unknown-fields", "Endpoints", "The spec does not mention unknown body fields. The token endpoint ignores them under every variant, as RFC 6749 demands.", takesBody,
			ways{{"ignored", "ignored, and listed in the Journal"}, {"rejected", "a validation failure"}}),
		point("unknown-parameters", "Endpoints", "The spec does not mention unknown query parameters. The token endpoint ignores them under every variant, as RFC 6749 demands.", takesToken,
			ways{{"ignored", "ignored, and listed in the Journal"}, {"rejected", "a validation failure"}}),
		point("rate-limit", "Limits", "The spec does not state the rate limit. Integrators observe 5,000 requests in a rolling 5 minutes.", every,
			ways{{"off", "no limit"}, {"5000-in-5m", "5,000 requests in a rolling 5 minutes, then 429"}}),

		// Lists
		point("default-page-size", "Limits", "The spec does not show the page size without page[size]. Integrators observe 20 and 25.", isList, ways{
			{"25", "25 items"}, {"20", "20 items"}, {"2", "2 items, to find code that reads only one page"},
		}),
		point("oversized-page", "Limits", "Integrators observe a maximum of 100. The effect of a larger size is unknown.", isList,
			ways{{"clamped", "100 items"}, {"rejected", "a validation failure"}}),
		point("page-beyond-last", "Pagination", "The spec does not specify what a page beyond the last contains.", isList,
			ways{{"empty", "no items"}, {"not-found", "404"}}),
		point("unsorted-lists", "Sorting convention", "The spec does not define the order of a list without sort_by.", func(op operations.Operation) bool { return op.List && op.ID != "products.similar" },
			ways{{"oldest-first", "the order of creation"}, {"newest-first", "the reverse. Similar products keep their ranking"}}),
		point("array-filters", "Catalog", "The spec does not specify whether several values of a filter narrow or widen the product search.", oneOf("products.search"),
			ways{{"all", "products with every value"}, {"any", "products with one of the values"}}),
		point("vendor-backorder", "Product", "A product is backordered if any variant is. The spec does not specify whether this includes the status \"vendor backorder\".", oneOf("products.list", "products.get", "products.search", "products.similar", "categories.products"),
			ways{{"unavailable", "the status does not count"}, {"backordered", "the status counts as backordered"}}),
		point("metadata-lag", "Metadata", "The spec does not specify how soon a lookup finds a new record. Search indexes of other platforms lag.", oneOf("metadata.list"),
			ways{{"none", "the lookup finds it at once"}, {"5s", "the lookup finds it 5 seconds after its creation"}, {"1m", "the lookup finds it 1 minute after its creation"}}),
		point("metadata-type", "Metadata", "The spec does not specify whether type is required.", oneOf("metadata.list"),
			ways{{"optional", "the lookup searches all types"}, {"required", "a validation failure without it"}}),

		// Tokens
		point("refresh-rotation", "Authentication 3", "The spec does not specify whether a refresh returns a new refresh token. Integrators observe a grace period.", oneOf("oauth.token"), ways{
			{"none", "the refresh token stays the same"},
			{"grace", "a new one. The old one stays valid until the first use of the new access token"},
			{"immediate", "a new one. The old one becomes invalid at once"},
		}),
		point("access-token-after-refresh", "Authentication 3", "The spec does not specify whether a refresh invalidates the old access token.", oneOf("oauth.token"),
			ways{{"kept", "it stays valid until it expires"}, {"ended", "it becomes invalid with the refresh"}}),
		point("refresh-token-revocation", "OAuth", "The spec describes the revocation of an access token only. RFC 7009 also demands it for a refresh token.", oneOf("oauth.revoke"),
			ways{{"revoked", "revoked, like an access token"}, {"unknown", "treated as an unknown token"}}),
		point("revocation-reach", "Authentication 6", "A revocation ends the token and its refresh token. The spec does not mention access tokens from before a refresh.", oneOf("oauth.revoke"),
			ways{{"consent", "they become invalid, with all tokens of the user's consent"}, {"pair", "they stay valid until they expire"}}),
		point("unknown-token-revocation", "OAuth", "The spec does not define the response to revoking an unknown token. RFC 7009 treats it as a success.", oneOf("oauth.revoke"),
			ways{{"ok", "200"}, {"rejected", "400 invalid_request"}}),
		point("expires-in", "Oauth token", "expires_in is an integer. Integrators also observe a string.", oneOf("oauth.token"),
			ways{{"number", "7200"}, {"string", `"7200"`}}),
		point("clinic-key-header", "Authentication 9", "The spec does not show which calls require the header. Newer examples omit it.", takesToken, ways{
			{"optional", "the bearer token alone identifies the clinic"},
			{"clinic-endpoint", "GET /clinic needs it"},
			{"always", "every call with a bearer token needs it"},
		}),
		point("integration-activation", "Authentication 9", "The first request with a valid clinic key activates an integration. Newer examples send no key, so a platform may deviate.", oneOf("clinic.get"),
			ways{{"first-key", "the first request with the key activates"}, {"from-the-start", "integrations are active without a request, and clinic_key.activated is never sent for a new one"}}),

		// Plans
		point("draft-cancellation", "States and transitions", "The spec does not show a transition from draft to canceled.", oneOf("treatment_plans.cancel"),
			ways{{"rejected", "a wrong state"}, {"allowed", "the draft is canceled"}}),
		point("canceled-plan-update", "States and transitions", "The spec does not specify whether a canceled plan can be edited.", oneOf("treatment_plans.update"),
			ways{{"rejected", "a wrong state"}, {"allowed", "it is edited and stays canceled"}}),
		point("draft-update", "States and transitions", "The spec does not show the effect of an update on the state.", oneOf("treatment_plans.update"),
			ways{{"stays-draft", "none"}, {"activates", "an updated draft becomes active"}}),
		point("link-practitioner", "Dynamic links", "The spec requires treatment_plan. It does not specify whether the practitioner_id in it is required.", oneOf("dynamic_links.create"),
			ways{{"token", "optional if the token belongs to a practitioner, whose id is the default"}, {"required", "a validation failure without it"}}),
		point("incomplete-plan", "States and transitions", "A plan is sent to its patient. The spec does not specify whether a draft without a patient or recommendations can be activated.", oneOf("treatment_plans.activate", "treatment_plans.update"),
			ways{{"rejected", "a wrong state. An update that would activate it leaves it a draft"}, {"activated", "the draft is activated. A checkout still needs a patient and recommendations"}}),
		point("checkout-state", "Treatment plans", "The spec does not specify which state an in-office checkout needs.", oneOf("treatment_plans.in_office_checkout"),
			ways{{"active", "only active plans"}, {"not-canceled", "active plans and drafts"}}),
		point("draft-invitation", "Treatment plan", "The spec does not specify whether a draft has an invitation_url.", oneOf("treatment_plans.create", "treatment_plans.get", "treatment_plans.update", "metadata.list"),
			ways{{"none", "null"}, {"present", "present, as in an active plan"}}),

		// Events
		point("plan-created-event", "Event types", "The spec does not specify whether drafting or sending creates a plan. Integrators observe the event on sending.", nil,
			ways{{"on-activation", "the activation of a draft emits treatment_plan.created"}, {"on-creation", "the creation of a draft emits it, and the activation emits treatment_plan.updated"}}),
		point("event-times", "Event", "The spec does not specify whether two events of one object can have the same created_at, which has milliseconds. Such events cannot be ordered by time.", showsEventTimes,
			ways{{"apart", "an event is at least a millisecond later than the previous event of its object, and not earlier than any other. It may be ahead of the clock. The updated_at of a plan matches its event"}, {"as-they-fall", "events have the clock's time, so two of them can have the same time"}}),
		point("product-event-clinic", "Webhooks 6", "The table of event fields omits clinic_id for product events. The section on webhooks includes it in each payload.", oneOf("webhook_deliveries.list"),
			ways{{"absent", "webhooks of product events have none"}, {"present", "webhooks have the clinic of the integration. The event lists have none"}}),
		point("unwrapped-event-data", "Events", "The spec does not show the data of most types. Integrators observe order.placed and product.created without a wrapper.", oneOf("events.get", "webhook_deliveries.list"),
			ways{{"orders-and-new-products", "order.placed and product.created are not wrapped"}, {"none", "all data is wrapped under its kind"}}),

		// Webhooks
		point("probe", "Webhooks", "The spec does not mention an empty test call. Integrators observe it on registration and before each event.", nil, ways{
			{"off", "never"},
			{"on-registration", "once, when the endpoint is registered"},
			{"before-each", "when the endpoint is registered, and before every attempt"},
		}),
		point("probe-signature", "Webhooks", "The spec does not specify whether the test call is signed.", nil,
			ways{{"signed", "signed like an event"}, {"unsigned", "without the header"}}),
		point("delivery-conditions", "Webhooks 6", "The spec does not mention a condition for sending. Integrators observe that it needs a live token with the scope of the event.", nil,
			ways{{"enforced", "an event is sent only with such a token"}, {"off", "every event is sent"}}),
		point("delivery-timeout", "Webhooks 5", "The spec calls the timeout aggressive. Integrators observe 2 seconds.", nil, ways{
			{"2s", "2 seconds"}, {"1s", "1 second"}, {"5s", "5 seconds"},
		}),
		point("retry-schedule", "Webhooks 4", "The spec describes up to six attempts with exponential backoff, but not the waits.", nil, ways{
			{"1m-5m-30m-1h-5h", "the observed waits: 1, 5 and 30 minutes, 1 and 5 hours"},
			{"doubling", "5, 10, 20, 40 and 80 minutes"},
		}),
		point("resume-after-enable", "Webhooks 8", "The spec does not specify whether enabling the endpoint resumes stopped deliveries.", nil,
			ways{{"dropped", "none. The event lists still contain the events"}, {"resumed", "deliveries with attempts left are attempted at once"}}),
		point("delivery-log", "Webhook deliveries", "The spec does not specify whether the log has a row for each delivery or for each attempt.", oneOf("webhook_deliveries.list"),
			ways{{"delivery", "one row, with the latest attempt"}, {"attempt", "one row for each attempt"}}),
		point("unanswered-status", "Webhook delivery", "The spec does not show response_status if there was no response.", oneOf("webhook_deliveries.list"),
			ways{{"null", "null"}, {"zero", "0"}}),
		point("webhook-envelope", "Webhooks 2", "Payloads are wrapped in event. Integrators also observe event_payload around it.", nil, ways{
			{"event", `{"event":{…}}`},
			{"event-payload", `{"event_payload":{"event":{…}}}`},
		}),
	}
}

func oneOf(ids ...string) func(operations.Operation) bool {
	return func(op operations.Operation) bool { return slices.Contains(ids, op.ID) }
}

func every(operations.Operation) bool { return true }

func responsesJSON(op operations.Operation) bool { return !op.Page }

func takesToken(op operations.Operation) bool { return !op.Open }

func takesBody(op operations.Operation) bool { return !op.Open && op.Method != http.MethodGet }

// showsEventTimes reports whether a response of op contains the time of an event or of its
// plan.
func showsEventTimes(op operations.Operation) bool {
	return strings.HasPrefix(op.ID, "events.") || strings.HasPrefix(op.ID, "treatment_plans.") && op.ID != "treatment_plans.create" &&
		op.ID != "treatment_plans.in_office_checkout"
}

func isList(op operations.Operation) bool { return op.List }
