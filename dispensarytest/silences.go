package dispensarytest

import (
	"slices"
	"sync"
)

// Names of the points that the API leaves open; see [Silences].
const (
	SilenceAccessAfterRefresh    = "access-token-after-refresh"
	SilenceArrayFilters          = "array-filters"
	SilenceCancelledPlanUpdate   = "cancelled-plan-update"
	SilenceCheckoutState         = "checkout-state"
	SilenceClinicKeyHeader       = "clinic-key-header"
	SilenceDefaultPageSize       = "default-page-size"
	SilenceDeliveryConditions    = "delivery-conditions"
	SilenceDeliveryLog           = "delivery-log"
	SilenceDeliveryTimeout       = "delivery-timeout"
	SilenceDraftCancellation     = "draft-cancellation"
	SilenceDraftInvitation       = "draft-invitation"
	SilenceDraftUpdate           = "draft-update"
	SilenceEmptyValues           = "empty-values"
	SilenceErrorShape            = "error-shape"
	SilenceEventTimes            = "event-times"
	SilenceExpiresIn             = "expires-in"
	SilenceIncompletePlan        = "incomplete-plan"
	SilenceIntegrationActivation = "integration-activation"
	SilenceLinkPractitioner      = "link-practitioner"
	SilenceMetadataType          = "metadata-type"
	SilenceMissingScopeStatus    = "missing-scope-status"
	SilenceOversizedPage         = "oversized-page"
	SilencePageBeyondLast        = "page-beyond-last"
	SilencePlainHTTPStatus       = "plain-http-status"
	SilencePlanCreatedEvent      = "plan-created-event"
	SilenceProbe                 = "probe"
	SilenceProbeSignature        = "probe-signature"
	SilenceProductEventClinic    = "product-event-clinic"
	SilenceRateLimit             = "rate-limit"
	SilenceRefreshRotation       = "refresh-rotation"
	SilenceRefreshTokenRevoked   = "refresh-token-revocation"
	SilenceResumeAfterEnable     = "resume-after-enable"
	SilenceRetrySchedule         = "retry-schedule"
	SilenceRevocationReach       = "revocation-reach"
	SilenceSuccessStatus         = "success-status"
	SilenceUnansweredStatus      = "unanswered-status"
	SilenceUnknownFields         = "unknown-fields"
	SilenceUnknownParameters     = "unknown-parameters"
	SilenceUnknownToken          = "unknown-token-revocation"
	SilenceUnsortedLists         = "unsorted-lists"
	SilenceUnwrappedEventData    = "unwrapped-event-data"
	SilenceValidationStatus      = "validation-status"
	SilenceVendorBackorder       = "vendor-backorder"
	SilenceWebhookEnvelope       = "webhook-envelope"
	SilenceWrongStateStatus      = "wrong-state-status"
)

// Silence is a point that the API leaves open, with the readings an integration
// has to survive.
type Silence struct {
	Name     string
	Section  string    // of the API
	Why      string    // what is left open, and where the default comes from
	Readings []Reading // the first is the default

	// Operations are those whose answers a reading can change: "patients.create". It
	// is empty for what is about events and webhooks alone.
	Operations []string
}

// Reading is one way to read a [Silence].
type Reading struct {
	Name    string
	Meaning string
	apply   func(*readings)
}

// Silences returns every point that can be read in more than one way, sorted by
// name. [WithReading] and [Server.SetReading] choose, [Matrix] tries them all.
func Silences() []Silence {
	all := slices.Clone(silences())
	for i := range all {
		all[i].Readings, all[i].Operations = slices.Clone(all[i].Readings), slices.Clone(all[i].Operations)
	}
	slices.SortFunc(all, func(a, b Silence) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// sets makes the function of a reading that sets one field.
func sets[T any](field func(*readings) *T, to T) func(*readings) {
	return func(r *readings) { *field(r) = to }
}

// silences is the table, made once in a process.
var silences = sync.OnceValue(func() []Silence {
	all := slices.Concat(answerSilences(), listSilences(), tokenSilences(), planSilences(), eventSilences(), webhookSilences(), logSilences())
	touched := touchedBy()
	for i := range all {
		for _, op := range operationTable() {
			if touches := touched[all[i].Name]; touches != nil && touches(op) && !slices.Contains(all[i].Operations, op.id) {
				all[i].Operations = append(all[i].Operations, op.id)
			}
		}
	}
	return all
})

func silence(name, section, why string, readings []Reading) Silence {
	return Silence{Name: name, Section: section, Why: why, Readings: readings}
}

func answerSilences() []Silence {
	shape := func(r *readings) *errorShape { return &r.errorShape }
	return []Silence{
		silence(SilenceSuccessStatus, "Endpoints", "Success codes are not shown; 201 is what integrators of such services see for what was created.", []Reading{
			{"201-for-created", "201 for created patients, practitioners, staff, plans and checkouts", func(r *readings) { r.alwaysOK = false }},
			{"always-200", "200 for everything", func(r *readings) { r.alwaysOK = true }},
		}),
		silence(SilenceErrorShape, "Errors 6", "The body of errors is not shown; several shapes are seen, which follow the status.", []Reading{
			{"by-status", "error as a list with 422, as a text with 401 and 403, with the status otherwise", sets(shape, shapeByStatus)},
			{"text", `{"error":"…"} for every status`, sets(shape, shapeText)},
			{"status-and-text", `{"status":…,"error":"…"} for every status`, sets(shape, shapeStatus)},
			{"coded-list", `{"errors":[{"code":"…","message":"…"}]} for every status`, sets(shape, shapeCoded)},
		}),
		statusSilence(SilenceValidationStatus, "Errors 7", "The status of validation failures is not shown.", func(r *readings) *int { return &r.validation }, 422, 400),
		statusSilence(SilenceWrongStateStatus, "Errors 7", "The status for a wrong state, such as activating what is no draft, is not shown.", func(r *readings) *int { return &r.wrongState }, 422, 409),
		statusSilence(SilenceMissingScopeStatus, "Errors 7", "The status for a forbidden scope is not shown.", func(r *readings) *int { return &r.missingScope }, 403, 404),
		statusSilence(SilencePlainHTTPStatus, "Errors 1", "Plain HTTP produces an error; which one is not said.", func(r *readings) *int { return &r.plainHTTP }, 403, 400),
		silence(SilenceEmptyValues, "Resources and their fields", "Whether fields without a value are null or left out is not shown.", []Reading{
			{"null", "null", func(r *readings) { r.dropNulls = false }},
			{"absent", "left out, but for those of meta", func(r *readings) { r.dropNulls = true }},
		}),
		silence(SilenceUnknownFields, "Endpoints", "What becomes of body fields nobody knows is not said. RFC 6749 has the token endpoint ignore them, whatever the reading.", []Reading{
			{"ignored", "they change nothing; the Journal has them", func(r *readings) { r.refuseUnread = false }},
			{"refused", "they are a validation failure", func(r *readings) { r.refuseUnread = true }},
		}),
		silence(SilenceUnknownParameters, "Endpoints", "What becomes of query parameters nobody knows is not said. RFC 6749 has the token endpoint ignore them, whatever the reading.", []Reading{
			{"ignored", "they change nothing; the Journal has them", func(r *readings) { r.refuseUnknown = false }},
			{"refused", "they are a validation failure", func(r *readings) { r.refuseUnknown = true }},
		}),
		silence(SilenceRateLimit, "Limits", "Rate limits are not shown; one of 5,000 requests in a rolling 5 minutes is seen.", []Reading{
			{"off", "there is none", func(r *readings) { r.limited = false }},
			{"5000-in-5m", "5,000 requests in a rolling 5 minutes, then 429", func(r *readings) { r.limited = true }},
		}),
	}
}
