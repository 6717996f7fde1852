package behavior

// The variants that are not defaults.
const (
	// AccessTokenAfterRefreshEnded invalidates the access token from before a refresh. By
	// default it stays valid until it expires.
	AccessTokenAfterRefreshEnded Variant = "access-token-after-refresh=ended"

	// ArrayFiltersAny lets the product search return products with one of the values of an
	// array filter. By default products need every value.
	ArrayFiltersAny Variant = "array-filters=any"

	// CanceledPlanUpdateAllowed accepts an update of a canceled plan, which stays canceled. By
	// default the update fails with a wrong state.
	CanceledPlanUpdateAllowed Variant = "canceled-plan-update=allowed"

	// CheckoutStateNotCanceled accepts an in-office checkout of a draft. By default only an
	// active plan has a checkout.
	CheckoutStateNotCanceled Variant = "checkout-state=not-canceled"

	// ClinicKeyHeaderClinicEndpoint requires the clinic key header for GET /clinic. By default
	// the bearer token alone identifies the clinic.
	ClinicKeyHeaderClinicEndpoint Variant = "clinic-key-header=clinic-endpoint"

	// ClinicKeyHeaderAlways requires the clinic key header for every call with a bearer token.
	ClinicKeyHeaderAlways Variant = "clinic-key-header=always"

	// DefaultPageSize20 returns 20 items if page[size] is absent. The default is 25.
	DefaultPageSize20 Variant = "default-page-size=20"

	// DefaultPageSize2 returns 2 items if page[size] is absent, to find code that reads only
	// one page.
	DefaultPageSize2 Variant = "default-page-size=2"

	// DeliveryConditionsOff sends every event. By default an event is sent only while a live
	// token of the clinic has the scope of the event.
	DeliveryConditionsOff Variant = "delivery-conditions=off"

	// DeliveryLogAttempt lists one row for each attempt in the delivery log. By default it has
	// one row for each delivery, with the latest attempt.
	DeliveryLogAttempt Variant = "delivery-log=attempt"

	// DeliveryTimeout1s waits 1 second for a response of the webhook endpoint. The default is
	// 2 seconds.
	DeliveryTimeout1s Variant = "delivery-timeout=1s"

	// DeliveryTimeout5s waits 5 seconds for a response of the webhook endpoint.
	DeliveryTimeout5s Variant = "delivery-timeout=5s"

	// DraftCancellationAllowed accepts the cancellation of a draft. By default it fails with a
	// wrong state.
	DraftCancellationAllowed Variant = "draft-cancellation=allowed"

	// DraftInvitationPresent returns an invitation_url for drafts, too. By default it is null.
	DraftInvitationPresent Variant = "draft-invitation=present"

	// DraftUpdateActivates activates a draft with its update. By default it stays a draft.
	DraftUpdateActivates Variant = "draft-update=activates"

	// EmptyValuesAbsent leaves out fields without a value, except those of meta. By default
	// they are null.
	EmptyValuesAbsent Variant = "empty-values=absent"

	// ErrorShapeText responds {"error":"…"} with every error status. By default the shape
	// depends on the status.
	ErrorShapeText Variant = "error-shape=text"

	// ErrorShapeStatusAndText responds {"status":…,"error":"…"} with every error status.
	ErrorShapeStatusAndText Variant = "error-shape=status-and-text"

	// ErrorShapeCodedList responds {"errors":[{"code":"…","message":"…"}]} with every error
	// status.
	ErrorShapeCodedList Variant = "error-shape=coded-list"

	// EventTimesAsTheyFall gives events the clock's time, so two events of an object can have
	// the same time. By default they are at least a millisecond apart.
	EventTimesAsTheyFall Variant = "event-times=as-they-fall"

	// ExpiresInString returns expires_in as the string "7200". By default it is a number.
	ExpiresInString Variant = "expires-in=string"

	// IncompletePlanActivated activates a draft without a patient or recommendations. By
	// default the activation fails with a wrong state.
	IncompletePlanActivated Variant = "incomplete-plan=activated"

	// IntegrationActivationFromTheStart activates integrations without a request. By default
	// the first request with the clinic key activates.
	IntegrationActivationFromTheStart Variant = "integration-activation=from-the-start"

	// LinkPractitionerRequired requires practitioner_id for a dynamic link. By default it can
	// be absent if the token belongs to a practitioner.
	LinkPractitionerRequired Variant = "link-practitioner=required"

	// MetadataLag5s finds a record by its metadata id 5 seconds after its creation. By default
	// the lookup finds it at once.
	MetadataLag5s Variant = "metadata-lag=5s"

	// MetadataLag1m finds a record by its metadata id 1 minute after its creation.
	MetadataLag1m Variant = "metadata-lag=1m"

	// MetadataTypeRequired requires the parameter type for a metadata lookup. By default the
	// lookup searches all types.
	MetadataTypeRequired Variant = "metadata-type=required"

	// MissingScopeStatus404 responds with 404 if the token lacks the scope. The default is
	// 403.
	MissingScopeStatus404 Variant = "missing-scope-status=404"

	// OversizedPageRejected rejects a page[size] above 100. By default it counts as 100.
	OversizedPageRejected Variant = "oversized-page=rejected"

	// PageBeyondLastNotFound responds with 404 to a page beyond the last. By default the page
	// is empty.
	PageBeyondLastNotFound Variant = "page-beyond-last=not-found"

	// PlainHTTPStatus400 responds with 400 to plain HTTP. The default is 403.
	PlainHTTPStatus400 Variant = "plain-http-status=400"

	// PlanCreatedEventOnCreation emits treatment_plan.created when a draft is written, and
	// treatment_plan.updated when it is activated. By default the activation emits
	// treatment_plan.created.
	PlanCreatedEventOnCreation Variant = "plan-created-event=on-creation"

	// ProbeOnRegistration sends an empty test call when an endpoint is registered. By default
	// there is no test call.
	ProbeOnRegistration Variant = "probe=on-registration"

	// ProbeBeforeEach sends an empty test call when an endpoint is registered, and before
	// every attempt.
	ProbeBeforeEach Variant = "probe=before-each"

	// ProbeSignatureUnsigned sends the test call without a signature header. By default it is
	// signed.
	ProbeSignatureUnsigned Variant = "probe-signature=unsigned"

	// ProductEventClinicPresent adds the clinic_id of the integration to webhooks of product
	// events. By default they have none.
	ProductEventClinicPresent Variant = "product-event-clinic=present"

	// RateLimit5000In5m allows 5,000 requests in a rolling 5 minutes, and then responds with
	// 429. By default there is no limit.
	RateLimit5000In5m Variant = "rate-limit=5000-in-5m"

	// RefreshRotationGrace returns a new refresh token with a refresh. The old one stays valid
	// until the first use of the new access token. By default the refresh token stays the
	// same.
	RefreshRotationGrace Variant = "refresh-rotation=grace"

	// RefreshRotationImmediate returns a new refresh token with a refresh, and invalidates the
	// old one at once.
	RefreshRotationImmediate Variant = "refresh-rotation=immediate"

	// RefreshTokenRevocationUnknown responds to the revocation of a refresh token as if the
	// token were unknown. By default the refresh token is revoked.
	RefreshTokenRevocationUnknown Variant = "refresh-token-revocation=unknown"

	// ResumeAfterEnableResumed resumes stopped deliveries when the endpoint is enabled again.
	// By default they stay stopped.
	ResumeAfterEnableResumed Variant = "resume-after-enable=resumed"

	// RetryScheduleDoubling waits 5, 10, 20, 40 and 80 minutes between attempts. By default
	// the waits are 1, 5, 30 and 60 minutes and 5 hours.
	RetryScheduleDoubling Variant = "retry-schedule=doubling"

	// RevocationReachPair leaves access tokens from before a refresh valid after a revocation.
	// By default the revocation ends the user's whole consent.
	RevocationReachPair Variant = "revocation-reach=pair"

	// SuccessStatusAlways200 responds with 200 to every success. By default a creation has the
	// status 201.
	SuccessStatusAlways200 Variant = "success-status=always-200"

	// UnansweredStatusZero lists an attempt without a response with response_status 0. By
	// default it is null.
	UnansweredStatusZero Variant = "unanswered-status=zero"

	// UnknownFieldsRejected rejects unknown body fields as a validation failure. By default the
	// platform ignores them.
	UnknownFieldsRejected Variant = "unknown-fields=rejected"

	// UnknownParametersRejected rejects unknown query parameters as a validation failure. By
	// default the platform ignores them.
	UnknownParametersRejected Variant = "unknown-parameters=rejected"

	// UnknownTokenRevocationRejected responds with 400 invalid_request to the revocation of an
	// unknown token. By default it responds with 200.
	UnknownTokenRevocationRejected Variant = "unknown-token-revocation=rejected"

	// UnsortedListsNewestFirst lists rows without sort_by from the newest to the oldest. By
	// default the oldest is first.
	UnsortedListsNewestFirst Variant = "unsorted-lists=newest-first"

	// UnwrappedEventDataNone wraps the data of all events under their kind. By default
	// order.placed and product.created are not wrapped.
	UnwrappedEventDataNone Variant = "unwrapped-event-data=none"

	// ValidationStatus400 responds with 400 to a validation failure. The default is 422.
	ValidationStatus400 Variant = "validation-status=400"

	// VendorBackorderBackordered counts a product as backordered if a variant has the status
	// "vendor backorder". By default it does not.
	VendorBackorderBackordered Variant = "vendor-backorder=backordered"

	// WebhookEnvelopeEventPayload sends webhooks as {"event_payload":{"event":{…}}}. By
	// default they are {"event":{…}}.
	WebhookEnvelopeEventPayload Variant = "webhook-envelope=event-payload"

	// WrongStateStatus409 responds with 409 to a wrong state. The default is 422.
	WrongStateStatus409 Variant = "wrong-state-status=409"
)
