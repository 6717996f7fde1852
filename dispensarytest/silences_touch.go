package dispensarytest

import (
	"net/http"
	"slices"
	"strings"
)

// touchedBy says which operations' answers the readings of a silence can change.
// Silences about events and webhooks are not there.
func touchedBy() map[string]func(operation) bool {
	return map[string]func(operation) bool{
		SilenceAccessAfterRefresh:    oneOf("oauth.token"),
		SilenceArrayFilters:          oneOf("products.search"),
		SilenceCancelledPlanUpdate:   oneOf("treatment_plans.update"),
		SilenceCheckoutState:         oneOf("treatment_plans.in_office_checkout"),
		SilenceClinicKeyHeader:       takesToken,
		SilenceDefaultPageSize:       isList,
		SilenceDeliveryLog:           oneOf("webhook_deliveries.list"),
		SilenceDraftCancellation:     oneOf("treatment_plans.cancel"),
		SilenceDraftInvitation:       oneOf("treatment_plans.create", "treatment_plans.get", "treatment_plans.update", "metadata.list"),
		SilenceDraftUpdate:           oneOf("treatment_plans.update"),
		SilenceEmptyValues:           answersJSON,
		SilenceErrorShape:            answersJSON,
		SilenceEventTimes:            showsEventTimes,
		SilenceExpiresIn:             oneOf("oauth.token"),
		SilenceIncompletePlan:        oneOf("treatment_plans.activate", "treatment_plans.update"),
		SilenceIntegrationActivation: oneOf("clinic.get"),
		SilenceLinkPractitioner:      oneOf("dynamic_links.create"),
		SilenceMetadataType:          oneOf("metadata.list"),
		SilenceMissingScopeStatus:    takesToken,
		SilenceOversizedPage:         isList,
		SilencePageBeyondLast:        isList,
		SilencePlainHTTPStatus:       every,
		SilenceProductEventClinic:    oneOf("webhook_deliveries.list"),
		SilenceRateLimit:             every,
		SilenceRefreshRotation:       oneOf("oauth.token"),
		SilenceRefreshTokenRevoked:   oneOf("oauth.revoke"),
		SilenceRevocationReach:       oneOf("oauth.revoke"),
		SilenceSuccessStatus: oneOf("patients.create", "practitioners.create", "staff.create",
			"treatment_plans.create", "treatment_plans.in_office_checkout"),
		SilenceUnansweredStatus:   oneOf("webhook_deliveries.list"),
		SilenceUnknownFields:      takesBody,
		SilenceUnknownParameters:  takesToken,
		SilenceUnknownToken:       oneOf("oauth.revoke"),
		SilenceUnsortedLists:      func(op operation) bool { return op.list && op.id != "products.similar" },
		SilenceUnwrappedEventData: oneOf("events.get", "webhook_deliveries.list"),
		SilenceValidationStatus:   takesToken,
		SilenceVendorBackorder:    oneOf("products.list", "products.get", "products.search", "products.similar", "categories.products"),
		SilenceWrongStateStatus: oneOf("dynamic_links.get", "treatment_plans.update", "treatment_plans.cancel",
			"treatment_plans.activate", "treatment_plans.in_office_checkout"),
	}
}

func oneOf(ids ...string) func(operation) bool {
	return func(op operation) bool { return slices.Contains(ids, op.id) }
}

func every(operation) bool { return true }

func answersJSON(op operation) bool { return op.page == nil }

func takesToken(op operation) bool { return !op.open }

func takesBody(op operation) bool { return !op.open && op.method != http.MethodGet }

// showsEventTimes holds for what has the time of an event, or of the plan it was about.
func showsEventTimes(op operation) bool {
	return eventGroup(op.id) == "events" || strings.HasPrefix(op.id, "treatment_plans.") && op.id != "treatment_plans.create" &&
		op.id != "treatment_plans.in_office_checkout"
}

func isList(op operation) bool { return op.list }
