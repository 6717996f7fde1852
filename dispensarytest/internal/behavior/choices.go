package behavior

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
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

// Choices is every point that can be read in more than one way, sorted by name. It is
// made once in a process, and is not to be changed.
var Choices = sync.OnceValue(func() []Choice {
	all := slices.Concat(answerChoices(), listChoices(), tokenChoices(), planChoices(), eventChoices(), webhookChoices(), logChoices())
	slices.SortFunc(all, func(a, b Choice) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// choice is a point whose variants change the answers of some operations; touches is nil
// where it is about events and webhooks alone.
func choice(name, section, why string, touches func(operations.Operation) bool, variants []Variant) Choice {
	c := Choice{Name: name, Section: section, Why: why, Variants: variants}
	for _, op := range operations.All() {
		if touches != nil && touches(op) && !slices.Contains(c.Operations, op.ID) {
			c.Operations = append(c.Operations, op.ID)
		}
	}
	return c
}

// flag is a point of two variants, the second of which sets a field.
func flag(name, section, why string, touches func(operations.Operation) bool, field func(*Set) *bool, off, on Variant) Choice {
	off.apply, on.apply = sets(field, false), sets(field, true)
	return choice(name, section, why, touches, []Variant{off, on})
}

// statusChoice is a point about the status of a refusal.
func statusChoice(name, section, why string, touches func(operations.Operation) bool, field func(*Set) *int, statuses ...int) Choice {
	var variants []Variant
	for _, status := range statuses {
		variants = append(variants, Variant{strconv.Itoa(status), fmt.Sprintf("status %d", status), sets(field, status)})
	}
	return choice(name, section, why, touches, variants)
}

// sets makes the function of a variant that sets one field.
func sets[T any](field func(*Set) *T, to T) func(*Set) {
	return func(s *Set) { *field(s) = to }
}

func answerChoices() []Choice {
	shape := func(s *Set) *ErrorShape { return &s.ErrorShape }
	return []Choice{
		flag("success-status", "Endpoints", "Success codes are not shown; 201 is what integrators of such services see for what was created.",
			oneOf("patients.create", "practitioners.create", "staff.create", "treatment_plans.create", "treatment_plans.in_office_checkout"), func(s *Set) *bool { return &s.AlwaysOK },
			Variant{Name: "201-for-created", Meaning: "201 for created patients, practitioners, staff, plans and checkouts"}, Variant{Name: "always-200", Meaning: "200 for everything"}),
		choice("error-shape", "Errors 6", "The body of errors is not shown; several shapes are seen, which follow the status.", answersJSON, []Variant{
			{"by-status", "error as a list with 422, as a text with 401 and 403, with the status otherwise", sets(shape, ShapeByStatus)},
			{"text", `{"error":"…"} for every status`, sets(shape, ShapeText)},
			{"status-and-text", `{"status":…,"error":"…"} for every status`, sets(shape, ShapeStatus)},
			{"coded-list", `{"errors":[{"code":"…","message":"…"}]} for every status`, sets(shape, ShapeCoded)},
		}),
		statusChoice("validation-status", "Errors 7", "The status of validation failures is not shown.", takesToken, func(s *Set) *int { return &s.Validation }, 422, 400),
		statusChoice("wrong-state-status", "Errors 7", "The status for a wrong state, such as activating what is no draft, is not shown.",
			oneOf("dynamic_links.get", "treatment_plans.update", "treatment_plans.cancel", "treatment_plans.activate", "treatment_plans.in_office_checkout"),
			func(s *Set) *int { return &s.WrongState }, 422, 409),
		statusChoice("missing-scope-status", "Errors 7", "The status for a forbidden scope is not shown.", takesToken, func(s *Set) *int { return &s.MissingScope }, 403, 404),
		statusChoice("plain-http-status", "Errors 1", "Plain HTTP produces an error; which one is not said.", every, func(s *Set) *int { return &s.PlainHTTP }, 403, 400),
		flag("empty-values", "Resources and their fields", "Whether fields without a value are null or left out is not shown.",
			answersJSON, func(s *Set) *bool { return &s.DropNulls },
			Variant{Name: "null", Meaning: "null"}, Variant{Name: "absent", Meaning: "left out, but for those of meta"}),
		flag("unknown-fields", "Endpoints", "What becomes of unknown body fields is not said. RFC 6749 has the token endpoint ignore them, whatever the variant.",
			takesBody, func(s *Set) *bool { return &s.RefuseUnread },
			Variant{Name: "ignored", Meaning: "they change nothing; the Journal has them"}, Variant{Name: "refused", Meaning: "they are a validation failure"}),
		flag("unknown-parameters", "Endpoints", "What becomes of unknown query parameters is not said. RFC 6749 has the token endpoint ignore them, whatever the variant.",
			takesToken, func(s *Set) *bool { return &s.RefuseUnknown },
			Variant{Name: "ignored", Meaning: "they change nothing; the Journal has them"}, Variant{Name: "refused", Meaning: "they are a validation failure"}),
		flag("rate-limit", "Limits", "Rate limits are not shown; one of 5,000 requests in a rolling 5 minutes is seen.",
			every, func(s *Set) *bool { return &s.Limited },
			Variant{Name: "off", Meaning: "there is none"}, Variant{Name: "5000-in-5m", Meaning: "5,000 requests in a rolling 5 minutes, then 429"}),
	}
}

func listChoices() []Choice {
	size := func(s *Set) *int { return &s.PageSize }
	return []Choice{
		choice("default-page-size", "Limits", "The page size without page[size] is not shown; 20 and 25 are seen.", isList, []Variant{
			{"25", "25 items", sets(size, 25)}, {"20", "20 items", sets(size, 20)}, {"2", "2 items, which finds out who reads only one page", sets(size, 2)},
		}),
		flag("oversized-page", "Limits", "The maximum is seen to be 100; what more asks for is not known.",
			isList, func(s *Set) *bool { return &s.RefuseOversized },
			Variant{Name: "clamped", Meaning: "100 items"}, Variant{Name: "refused", Meaning: "a validation failure"}),
		flag("page-beyond-last", "Pagination", "What a page beyond the last holds is not said.",
			isList, func(s *Set) *bool { return &s.RefuseBeyond },
			Variant{Name: "empty", Meaning: "no items"}, Variant{Name: "not-found", Meaning: "404"}),
		flag("unsorted-lists", "Sorting convention", "The order of a list without sort_by is not said.",
			func(op operations.Operation) bool { return op.List && op.ID != "products.similar" }, func(s *Set) *bool { return &s.NewestFirst },
			Variant{Name: "oldest-first", Meaning: "the order of creation"}, Variant{Name: "newest-first", Meaning: "the reverse; similar products keep their ranking"}),
		flag("array-filters", "Catalog", "Whether several values of a filter of the product search narrow or widen it is not said.",
			oneOf("products.search"), func(s *Set) *bool { return &s.AnyFilter },
			Variant{Name: "all", Meaning: "products that have every value"}, Variant{Name: "any", Meaning: "products that have one of the values"}),
		flag("vendor-backorder", "Product", "A product is backordered if any variant is; whether one with the status \"vendor backorder\" is meant, too, is not said.",
			oneOf("products.list", "products.get", "products.search", "products.similar", "categories.products"), func(s *Set) *bool { return &s.VendorBackorders },
			Variant{Name: "unavailable", Meaning: "it is not"}, Variant{Name: "backordered", Meaning: "it is"}),
		flag("metadata-type", "Metadata", "Whether type can be left out is not said.",
			oneOf("metadata.list"), func(s *Set) *bool { return &s.TypeNeeded },
			Variant{Name: "optional", Meaning: "all types are looked through"}, Variant{Name: "required", Meaning: "a validation failure without"}),
	}
}

func tokenChoices() []Choice {
	rotation := func(s *Set) *RefreshRotation { return &s.Rotation }
	key := func(s *Set) *keyRule { return &s.KeyNeeded }
	return []Choice{
		choice("refresh-rotation", "Authentication 3", "Whether a refresh answers with a new refresh token is not said; a grace period is seen.", oneOf("oauth.token"), []Variant{
			{"none", "the refresh token stays", sets(rotation, RotationNone)},
			{"grace", "a new one; the old one ends with the first use of the new access token", sets(rotation, RotationGrace)},
			{"immediate", "a new one; the old one ends at once", sets(rotation, RotationImmediate)},
		}),
		flag("access-token-after-refresh", "Authentication 3", "What a refresh does to the access token before it is not said.",
			oneOf("oauth.token"), func(s *Set) *bool { return &s.EndOldAccess },
			Variant{Name: "kept", Meaning: "it stays good until it expires"}, Variant{Name: "ended", Meaning: "it ends with the refresh"}),
		flag("refresh-token-revocation", "OAuth", "That an access token can be revoked is said; whether a refresh token can is not. RFC 7009 demands it.",
			oneOf("oauth.revoke"), func(s *Set) *bool { return &s.KeepRefreshTokens },
			Variant{Name: "revoked", Meaning: "as an access token"}, Variant{Name: "unknown", Meaning: "it counts as an unknown token"}),
		flag("revocation-reach", "Authentication 6", "Revoking ends the token and its refresh token; what becomes of access tokens from before a refresh is not said.",
			oneOf("oauth.revoke"), func(s *Set) *bool { return &s.RevokePair },
			Variant{Name: "consent", Meaning: "they end, with everything that came from the user's consent"}, Variant{Name: "pair", Meaning: "they stay good until they expire"}),
		flag("unknown-token-revocation", "OAuth", "What revoking an unknown token answers is not said; RFC 7009 calls it no error.",
			oneOf("oauth.revoke"), func(s *Set) *bool { return &s.RefuseUnknownToken },
			Variant{Name: "ok", Meaning: "200"}, Variant{Name: "refused", Meaning: "400 invalid_request"}),
		flag("expires-in", "Oauth token", "expires_in is an integer; a string is seen, too.",
			oneOf("oauth.token"), func(s *Set) *bool { return &s.ExpiresAsText },
			Variant{Name: "number", Meaning: "7200"}, Variant{Name: "string", Meaning: `"7200"`}),
		choice("clinic-key-header", "Authentication 9", "When the header is required is not shown; newer examples do without.", takesToken, []Variant{
			{"optional", "the bearer token alone identifies the clinic", sets(key, keyOptional)},
			{"clinic-endpoint", "GET /clinic needs it", sets(key, KeyForClinic)},
			{"always", "every call with a bearer token needs it", sets(key, KeyAlways)},
		}),
		flag("integration-activation", "Authentication 9", "The first request with a valid clinic key activates an integration. Newer examples send no key, so a platform may deviate.",
			oneOf("clinic.get"), func(s *Set) *bool { return &s.ActiveFromStart },
			Variant{Name: "first-key", Meaning: "the first request with the key activates"}, Variant{Name: "from-the-start", Meaning: "integrations are active without a request, and clinic_key.activated is never sent for a new one"}),
	}
}

func planChoices() []Choice {
	return []Choice{
		flag("draft-cancellation", "States and transitions", "The transition from draft to cancelled is not shown.",
			oneOf("treatment_plans.cancel"), func(s *Set) *bool { return &s.CancelDrafts },
			Variant{Name: "refused", Meaning: "a wrong state"}, Variant{Name: "allowed", Meaning: "the draft is cancelled"}),
		flag("cancelled-plan-update", "States and transitions", "Whether a cancelled plan can be edited is not said.",
			oneOf("treatment_plans.update"), func(s *Set) *bool { return &s.EditCancelled },
			Variant{Name: "refused", Meaning: "a wrong state"}, Variant{Name: "allowed", Meaning: "it is edited and stays cancelled"}),
		flag("draft-update", "States and transitions", "The effect of an update on the state is not shown.",
			oneOf("treatment_plans.update"), func(s *Set) *bool { return &s.UpdateActivates },
			Variant{Name: "stays-draft", Meaning: "none"}, Variant{Name: "activates", Meaning: "a draft that is updated becomes active"}),
		flag("link-practitioner", "Dynamic links", "Whether the practitioner_id of a link's treatment_plan can be left out is not said; only treatment_plan is called required.",
			oneOf("dynamic_links.create"), func(s *Set) *bool { return &s.LinkNamesPractitioner },
			Variant{Name: "token", Meaning: "it can where the token is a practitioner's, who is it then"}, Variant{Name: "required", Meaning: "a validation failure without"}),
		flag("incomplete-plan", "States and transitions", "Whether a draft that names no patient or recommends nothing can be activated is not said; a plan is sent to its patient.",
			oneOf("treatment_plans.activate", "treatment_plans.update"), func(s *Set) *bool { return &s.ActivateIncomplete },
			Variant{Name: "refused", Meaning: "a wrong state; an update that would activate it leaves it a draft"}, Variant{Name: "activated", Meaning: "it is; a checkout needs both all the same"}),
		flag("checkout-state", "Treatment plans", "Which state an in-office checkout needs is not said.",
			oneOf("treatment_plans.in_office_checkout"), func(s *Set) *bool { return &s.CheckoutDrafts },
			Variant{Name: "active", Meaning: "only active plans"}, Variant{Name: "not-cancelled", Meaning: "drafts, too"}),
		flag("draft-invitation", "Treatment plan", "Whether a draft has an invitation_url is not said.",
			oneOf("treatment_plans.create", "treatment_plans.get", "treatment_plans.update", "metadata.list"), func(s *Set) *bool { return &s.InviteDrafts },
			Variant{Name: "none", Meaning: "null"}, Variant{Name: "present", Meaning: "as an active plan has"}),
	}
}

func eventChoices() []Choice {
	return []Choice{
		flag("plan-created-event", "Event types", "Whether a plan counts as created when it is drafted or when it is sent is not said; the latter is seen.",
			nil, func(s *Set) *bool { return &s.DraftMakesEvent },
			Variant{Name: "on-activation", Meaning: "a draft makes treatment_plan.created when it is activated"}, Variant{Name: "on-creation", Meaning: "a draft makes it at once, and treatment_plan.updated when it is activated"}),
		flag("event-times", "Event", "Whether two events of one object can have the same created_at, which has milliseconds, is not said. A receiver that orders by time cannot tell them apart.",
			showsEventTimes, func(s *Set) *bool { return &s.EventsTie },
			Variant{Name: "apart", Meaning: "an event is at least a millisecond later than the one before of the same object, and may be ahead of the clock; updated_at of a plan goes with it"}, Variant{Name: "as-they-fall", Meaning: "events have the clock's time, which can be the same"}),
		flag("product-event-clinic", "Webhooks 6", "The table of an event says that product events have no clinic_id, the section on webhooks that each payload has one.",
			oneOf("webhook_deliveries.list"), func(s *Set) *bool { return &s.ClinicOnProducts },
			Variant{Name: "absent", Meaning: "webhooks of product events have none"}, Variant{Name: "present", Meaning: "they have that of the integration they are sent to; the event lists have none"}),
		flag("unwrapped-event-data", "Events", "The data of most types is not shown; order.placed and product.created are seen without a wrapper.",
			oneOf("events.get", "webhook_deliveries.list"), func(s *Set) *bool { return &s.WrapAll },
			Variant{Name: "orders-and-new-products", Meaning: "order.placed and product.created are not wrapped"}, Variant{Name: "none", Meaning: "all data is wrapped under its kind"}),
	}
}

// doubling is exponential in the narrow sense.
func doubling() []time.Duration {
	waits := make([]time.Duration, 5)
	for i := range waits {
		waits[i] = 5 * time.Minute << i
	}
	return waits
}

func webhookChoices() []Choice {
	probe := func(s *Set) *probeMode { return &s.Probe }
	timeout := func(s *Set) *time.Duration { return &s.SendTimeout }
	schedule := func(s *Set) *[]time.Duration { return &s.RetrySchedule }
	return []Choice{
		choice("probe", "Webhooks", "An empty test call is not mentioned, but seen on registration and before each event.", nil, []Variant{
			{"off", "none", sets(probe, ProbeNever)},
			{"on-registration", "once, when the endpoint is registered", sets(probe, probeOnRegistration)},
			{"before-each", "then, and before every attempt", sets(probe, ProbeBeforeEach)},
		}),
		flag("probe-signature", "Webhooks", "Whether the test call is signed is not documented.",
			nil, func(s *Set) *bool { return &s.UnsignedProbe },
			Variant{Name: "signed", Meaning: "as any other"}, Variant{Name: "unsigned", Meaning: "without the header"}),
		flag("delivery-conditions", "Webhooks 6", "That a live token with the event's scope is needed is seen, not documented.",
			nil, func(s *Set) *bool { return &s.Unconditional },
			Variant{Name: "enforced", Meaning: "events without one are not sent"}, Variant{Name: "off", Meaning: "every event is sent"}),
		choice("delivery-timeout", "Webhooks 5", "The time-out is called aggressive; 2 seconds are seen.", nil, []Variant{
			{"2s", "2 seconds", sets(timeout, 2*time.Second)}, {"1s", "1 second", sets(timeout, time.Second)}, {"5s", "5 seconds", sets(timeout, 5*time.Second)},
		}),
		choice("retry-schedule", "Webhooks 4", "Up to six attempts back off exponentially; the waits are not documented.", nil, []Variant{
			{"1m-5m-30m-1h-5h", "the waits that are seen", sets(schedule, []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour})},
			{"doubling", "5, 10, 20, 40 and 80 minutes", sets(schedule, doubling())},
		}),
	}
}

// logChoices are about what is left of a delivery.
func logChoices() []Choice {
	envelope := func(s *Set) *string { return &s.PayloadName }
	return []Choice{
		flag("resume-after-enable", "Webhooks 8", "What becomes of deliveries that stopped when the endpoint is enabled again is not said.",
			nil, func(s *Set) *bool { return &s.Resume },
			Variant{Name: "dropped", Meaning: "nothing is resumed; the event lists have them"}, Variant{Name: "resumed", Meaning: "what has attempts left is attempted at once"}),
		flag("delivery-log", "Webhook deliveries", "Whether the log has a row for each delivery or for each attempt is not said.",
			oneOf("webhook_deliveries.list"), func(s *Set) *bool { return &s.LogAttempts },
			Variant{Name: "delivery", Meaning: "one row, as the latest attempt left it"}, Variant{Name: "attempt", Meaning: "one row for each attempt"}),
		flag("unanswered-status", "Webhook delivery", "response_status without an answer is not shown.",
			oneOf("webhook_deliveries.list"), func(s *Set) *bool { return &s.ZeroStatus },
			Variant{Name: "null", Meaning: "null"}, Variant{Name: "zero", Meaning: "0"}),
		choice("webhook-envelope", "Webhooks 2", "Payloads are wrapped in event; event_payload around it is seen, too.", nil, []Variant{
			{"event", `{"event":{…}}`, sets(envelope, "")},
			{"event-payload", `{"event_payload":{"event":{…}}}`, sets(envelope, "event_payload")},
		}),
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

// Choose applies a variant by name.
func (r *Set) Choose(point, variant string) error {
	var names []string
	for _, s := range Choices() {
		if names = append(names, s.Name); s.Name != point {
			continue
		}
		var known []string
		for _, option := range s.Variants {
			if known = append(known, option.Name); option.Name == variant {
				option.apply(r)
				r.Chosen = maps.Clone(r.Chosen)
				r.Chosen[point] = variant
				return nil
			}
		}
		return fmt.Errorf("dispensarytest: %s has no variant %q, only %s", point, variant, strings.Join(known, ", "))
	}
	return errors.New("dispensarytest: " + closestmatch.Unknown("open point", point, slices.Sorted(slices.Values(names))))
}

// Defaults is what every platform starts from.
var Defaults = sync.OnceValue(func() Set {
	r := Set{Chosen: make(map[string]string)}
	for _, s := range Choices() {
		s.Variants[0].apply(&r)
		r.Chosen[s.Name] = s.Variants[0].Name
	}
	return r
})
