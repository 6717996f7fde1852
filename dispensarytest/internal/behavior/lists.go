package behavior

import (
	"fmt"
	"strconv"
)

// statusChoice is an open point about the status of a refusal.
func statusChoice(name, section, why string, field func(*Set) *int, statuses ...int) Choice {
	s := Choice{Name: name, Section: section, Why: why}
	for _, status := range statuses {
		s.Variants = append(s.Variants, Variant{strconv.Itoa(status), fmt.Sprintf("status %d", status), sets(field, status)})
	}
	return s
}

func listChoices() []Choice {
	size := func(r *Set) *int { return &r.PageSize }
	return []Choice{
		choice("default-page-size", "Limits", "The page size without page[size] is not shown; 20 and 25 are seen.", []Variant{
			{"25", "25 items", sets(size, 25)}, {"20", "20 items", sets(size, 20)}, {"2", "2 items, which finds out who reads only one page", sets(size, 2)},
		}),
		choice("oversized-page", "Limits", "The maximum is seen to be 100; what more asks for is not known.", []Variant{
			{"clamped", "100 items", func(r *Set) { r.RefuseOversized = false }},
			{"refused", "a validation failure", func(r *Set) { r.RefuseOversized = true }},
		}),
		choice("page-beyond-last", "Pagination", "What a page beyond the last holds is not said.", []Variant{
			{"empty", "no items", func(r *Set) { r.RefuseBeyond = false }},
			{"not-found", "404", func(r *Set) { r.RefuseBeyond = true }},
		}),
		choice("unsorted-lists", "Sorting convention", "The order of a list without sort_by is not said.", []Variant{
			{"oldest-first", "the order of creation", func(r *Set) { r.NewestFirst = false }},
			{"newest-first", "the reverse; similar products keep their ranking", func(r *Set) { r.NewestFirst = true }},
		}),
		choice("array-filters", "Catalog", "Whether several values of a filter of the product search narrow or widen it is not said.", []Variant{
			{"all", "products that have every value", func(r *Set) { r.AnyFilter = false }},
			{"any", "products that have one of the values", func(r *Set) { r.AnyFilter = true }},
		}),
		choice("vendor-backorder", "Product", "A product is backordered if any variant is; whether one with the status \"vendor backorder\" is meant, too, is not said.", []Variant{
			{"unavailable", "it is not", func(r *Set) { r.VendorBackorders = false }},
			{"backordered", "it is", func(r *Set) { r.VendorBackorders = true }},
		}),
		choice("metadata-type", "Metadata", "Whether type can be left out is not said.", []Variant{
			{"optional", "all types are looked through", func(r *Set) { r.TypeNeeded = false }},
			{"required", "a validation failure without", func(r *Set) { r.TypeNeeded = true }},
		}),
	}
}

func tokenChoices() []Choice {
	rotation := func(r *Set) *RefreshRotation { return &r.Rotation }
	key := func(r *Set) *keyRule { return &r.KeyNeeded }
	return []Choice{
		choice("refresh-rotation", "Authentication 3", "Whether a refresh answers with a new refresh token is not said; a grace period is seen.", []Variant{
			{"none", "the refresh token stays", sets(rotation, RotationNone)},
			{"grace", "a new one; the old one ends with the first use of the new access token", sets(rotation, RotationGrace)},
			{"immediate", "a new one; the old one ends at once", sets(rotation, RotationImmediate)},
		}),
		choice("access-token-after-refresh", "Authentication 3", "What a refresh does to the access token before it is not said.", []Variant{
			{"kept", "it stays good until it expires", func(r *Set) { r.EndOldAccess = false }},
			{"ended", "it ends with the refresh", func(r *Set) { r.EndOldAccess = true }},
		}),
		choice("refresh-token-revocation", "OAuth", "That an access token can be revoked is said; whether a refresh token can is not. RFC 7009 demands it.", []Variant{
			{"revoked", "as an access token", func(r *Set) { r.KeepRefreshTokens = false }},
			{"unknown", "it counts as an unknown token", func(r *Set) { r.KeepRefreshTokens = true }},
		}),
		choice("revocation-reach", "Authentication 6", "Revoking ends the token and its refresh token; what becomes of access tokens from before a refresh is not said.", []Variant{
			{"consent", "they end, with everything that came from the user's consent", func(r *Set) { r.RevokePair = false }},
			{"pair", "they stay good until they expire", func(r *Set) { r.RevokePair = true }},
		}),
		choice("unknown-token-revocation", "OAuth", "What revoking an unknown token answers is not said; RFC 7009 calls it no error.", []Variant{
			{"ok", "200", func(r *Set) { r.RefuseUnknownToken = false }},
			{"refused", "400 invalid_request", func(r *Set) { r.RefuseUnknownToken = true }},
		}),
		choice("expires-in", "Oauth token", "expires_in is an integer; a string is seen, too.", []Variant{
			{"number", "7200", func(r *Set) { r.ExpiresAsText = false }},
			{"string", `"7200"`, func(r *Set) { r.ExpiresAsText = true }},
		}),
		choice("clinic-key-header", "Authentication 9", "When the header is required is not shown; newer examples do without.", []Variant{
			{"optional", "the bearer token alone identifies the clinic", sets(key, keyOptional)},
			{"clinic-endpoint", "GET /clinic needs it", sets(key, KeyForClinic)},
			{"always", "every call with a bearer token needs it", sets(key, KeyAlways)},
		}),
		choice("integration-activation", "Authentication 9", "Whether an integration whose key is never sent is active is not said. Read only when the platform starts.", []Variant{
			{"from-the-start", "integrations are active", func(r *Set) { r.Pending = false }},
			{"first-key", "the first request with the key activates", func(r *Set) { r.Pending = true }},
		}),
	}
}

func planChoices() []Choice {
	return []Choice{
		choice("draft-cancellation", "States and transitions", "The transition from draft to cancelled is not shown.", []Variant{
			{"refused", "a wrong state", func(r *Set) { r.CancelDrafts = false }},
			{"allowed", "the draft is cancelled", func(r *Set) { r.CancelDrafts = true }},
		}),
		choice("cancelled-plan-update", "States and transitions", "Whether a cancelled plan can be edited is not said.", []Variant{
			{"refused", "a wrong state", func(r *Set) { r.EditCancelled = false }},
			{"allowed", "it is edited and stays cancelled", func(r *Set) { r.EditCancelled = true }},
		}),
		choice("draft-update", "States and transitions", "The effect of an update on the state is not shown.", []Variant{
			{"stays-draft", "none", func(r *Set) { r.UpdateActivates = false }},
			{"activates", "a draft that is updated becomes active", func(r *Set) { r.UpdateActivates = true }},
		}),
		choice("link-practitioner", "Dynamic links", "Whether the practitioner_id of a link's treatment_plan can be left out is not said; only treatment_plan is called required.", []Variant{
			{"token", "it can where the token is a practitioner's, who is it then", func(r *Set) { r.LinkNamesPractitioner = false }},
			{"required", "a validation failure without", func(r *Set) { r.LinkNamesPractitioner = true }},
		}),
		choice("incomplete-plan", "States and transitions", "Whether a draft that names no patient or recommends nothing can be activated is not said; a plan is sent to its patient.", []Variant{
			{"refused", "a wrong state; an update that would activate it leaves it a draft", func(r *Set) { r.ActivateIncomplete = false }},
			{"activated", "it is; a checkout needs both all the same", func(r *Set) { r.ActivateIncomplete = true }},
		}),
		choice("checkout-state", "Treatment plans", "Which state an in-office checkout needs is not said.", []Variant{
			{"active", "only active plans", func(r *Set) { r.CheckoutDrafts = false }},
			{"not-cancelled", "drafts, too", func(r *Set) { r.CheckoutDrafts = true }},
		}),
		choice("draft-invitation", "Treatment plan", "Whether a draft has an invitation_url is not said.", []Variant{
			{"none", "null", func(r *Set) { r.InviteDrafts = false }},
			{"present", "as an active plan has", func(r *Set) { r.InviteDrafts = true }},
		}),
	}
}
