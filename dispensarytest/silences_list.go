package dispensarytest

import (
	"fmt"
	"strconv"
)

// statusSilence is a silence about the status of a refusal.
func statusSilence(name, section, why string, field func(*readings) *int, statuses ...int) Silence {
	s := Silence{Name: name, Section: section, Why: why}
	for _, status := range statuses {
		s.Readings = append(s.Readings, Reading{strconv.Itoa(status), fmt.Sprintf("status %d", status), sets(field, status)})
	}
	return s
}

func listSilences() []Silence {
	size := func(r *readings) *int { return &r.pageSize }
	return []Silence{
		silence(SilenceDefaultPageSize, "Limits", "The page size without page[size] is not shown; 20 and 25 are seen.", []Reading{
			{"25", "25 items", sets(size, 25)}, {"20", "20 items", sets(size, 20)}, {"2", "2 items, which finds out who reads only one page", sets(size, 2)},
		}),
		silence(SilenceOversizedPage, "Limits", "The maximum is seen to be 100; what more asks for is not known.", []Reading{
			{"clamped", "100 items", func(r *readings) { r.refuseOversized = false }},
			{"refused", "a validation failure", func(r *readings) { r.refuseOversized = true }},
		}),
		silence(SilencePageBeyondLast, "Pagination", "What a page beyond the last holds is not said.", []Reading{
			{"empty", "no items", func(r *readings) { r.refuseBeyond = false }},
			{"not-found", "404", func(r *readings) { r.refuseBeyond = true }},
		}),
		silence(SilenceUnsortedLists, "Sorting convention", "The order of a list without sort_by is not said.", []Reading{
			{"oldest-first", "the order of creation", func(r *readings) { r.newestFirst = false }},
			{"newest-first", "the reverse; similar products keep their ranking", func(r *readings) { r.newestFirst = true }},
		}),
		silence(SilenceArrayFilters, "Catalog", "Whether several values of a filter of the product search narrow or widen it is not said.", []Reading{
			{"all", "products that have every value", func(r *readings) { r.anyFilter = false }},
			{"any", "products that have one of the values", func(r *readings) { r.anyFilter = true }},
		}),
		silence(SilenceVendorBackorder, "Product", "A product is backordered if any variant is; whether one with the status \"vendor backorder\" is meant, too, is not said.", []Reading{
			{"unavailable", "it is not", func(r *readings) { r.vendorBackorders = false }},
			{"backordered", "it is", func(r *readings) { r.vendorBackorders = true }},
		}),
		silence(SilenceMetadataType, "Metadata", "Whether type can be left out is not said.", []Reading{
			{"optional", "all types are looked through", func(r *readings) { r.typeNeeded = false }},
			{"required", "a validation failure without", func(r *readings) { r.typeNeeded = true }},
		}),
	}
}

func tokenSilences() []Silence {
	rotation := func(r *readings) *RefreshRotation { return &r.rotation }
	key := func(r *readings) *keyRule { return &r.keyNeeded }
	return []Silence{
		silence(SilenceRefreshRotation, "Authentication 3", "Whether a refresh answers with a new refresh token is not said; a grace period is seen.", []Reading{
			{"none", "the refresh token stays", sets(rotation, RotationNone)},
			{"grace", "a new one; the old one ends with the first use of the new access token", sets(rotation, RotationGrace)},
			{"immediate", "a new one; the old one ends at once", sets(rotation, RotationImmediate)},
		}),
		silence(SilenceAccessAfterRefresh, "Authentication 3", "What a refresh does to the access token before it is not said.", []Reading{
			{"kept", "it stays good until it expires", func(r *readings) { r.endOldAccess = false }},
			{"ended", "it ends with the refresh", func(r *readings) { r.endOldAccess = true }},
		}),
		silence(SilenceRefreshTokenRevoked, "OAuth", "That an access token can be revoked is said; whether a refresh token can is not. RFC 7009 demands it.", []Reading{
			{"revoked", "as an access token", func(r *readings) { r.keepRefreshTokens = false }},
			{"unknown", "it is a token that nobody knows", func(r *readings) { r.keepRefreshTokens = true }},
		}),
		silence(SilenceRevocationReach, "Authentication 6", "Revoking ends the token and its refresh token; what becomes of access tokens from before a refresh is not said.", []Reading{
			{"consent", "they end, with everything that came from the user's consent", func(r *readings) { r.revokePair = false }},
			{"pair", "they stay good until they expire", func(r *readings) { r.revokePair = true }},
		}),
		silence(SilenceUnknownToken, "OAuth", "What revoking an unknown token answers is not said; RFC 7009 calls it no error.", []Reading{
			{"ok", "200", func(r *readings) { r.refuseUnknownToken = false }},
			{"refused", "400 invalid_request", func(r *readings) { r.refuseUnknownToken = true }},
		}),
		silence(SilenceExpiresIn, "Oauth token", "expires_in is an integer; a string is seen, too.", []Reading{
			{"number", "7200", func(r *readings) { r.expiresAsText = false }},
			{"string", `"7200"`, func(r *readings) { r.expiresAsText = true }},
		}),
		silence(SilenceClinicKeyHeader, "Authentication 9", "When the header is required is not shown; newer examples do without.", []Reading{
			{"optional", "the bearer token alone identifies the clinic", sets(key, keyOptional)},
			{"clinic-endpoint", "GET /clinic needs it", sets(key, keyForClinic)},
			{"always", "every call with a bearer token needs it", sets(key, keyAlways)},
		}),
		silence(SilenceIntegrationActivation, "Authentication 9", "Whether an integration whose key is never sent is active is not said. Read only when the platform starts.", []Reading{
			{"from-the-start", "integrations are active", func(r *readings) { r.pending = false }},
			{"first-key", "the first request with the key activates", func(r *readings) { r.pending = true }},
		}),
	}
}

func planSilences() []Silence {
	return []Silence{
		silence(SilenceDraftCancellation, "States and transitions", "The transition from draft to cancelled is not shown.", []Reading{
			{"refused", "a wrong state", func(r *readings) { r.cancelDrafts = false }},
			{"allowed", "the draft is cancelled", func(r *readings) { r.cancelDrafts = true }},
		}),
		silence(SilenceCancelledPlanUpdate, "States and transitions", "Whether a cancelled plan can be edited is not said.", []Reading{
			{"refused", "a wrong state", func(r *readings) { r.editCancelled = false }},
			{"allowed", "it is edited and stays cancelled", func(r *readings) { r.editCancelled = true }},
		}),
		silence(SilenceDraftUpdate, "States and transitions", "The effect of an update on the state is not shown.", []Reading{
			{"stays-draft", "none", func(r *readings) { r.updateActivates = false }},
			{"activates", "a draft that is updated becomes active", func(r *readings) { r.updateActivates = true }},
		}),
		silence(SilenceLinkPractitioner, "Dynamic links", "Whether the practitioner_id of a link's treatment_plan can be left out is not said; only treatment_plan is called required.", []Reading{
			{"token", "it can where the token is a practitioner's, who is it then", func(r *readings) { r.linkNamesPractitioner = false }},
			{"required", "a validation failure without", func(r *readings) { r.linkNamesPractitioner = true }},
		}),
		silence(SilenceIncompletePlan, "States and transitions", "Whether a draft that names no patient or recommends nothing can be activated is not said; a plan is sent to its patient.", []Reading{
			{"refused", "a wrong state; an update that would activate it leaves it a draft", func(r *readings) { r.activateIncomplete = false }},
			{"activated", "it is; a checkout needs both all the same", func(r *readings) { r.activateIncomplete = true }},
		}),
		silence(SilenceCheckoutState, "Treatment plans", "Which state an in-office checkout needs is not said.", []Reading{
			{"active", "only active plans", func(r *readings) { r.checkoutDrafts = false }},
			{"not-cancelled", "drafts, too", func(r *readings) { r.checkoutDrafts = true }},
		}),
		silence(SilenceDraftInvitation, "Treatment plan", "Whether a draft has an invitation_url is not said.", []Reading{
			{"none", "null", func(r *readings) { r.inviteDrafts = false }},
			{"present", "as an active plan has", func(r *readings) { r.inviteDrafts = true }},
		}),
	}
}
