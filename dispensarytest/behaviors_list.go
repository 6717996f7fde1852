package dispensarytest

// The variants of every point that the API leaves open, the default of each first; see
// [BehaviorChoices] for the sections of the API and the reasons.
const (
	AccessTokenAfterRefreshKept  Behavior = "access-token-after-refresh=kept"  // it stays good until it expires
	AccessTokenAfterRefreshEnded Behavior = "access-token-after-refresh=ended" // it ends with the refresh

	ArrayFiltersAll Behavior = "array-filters=all" // products that have every value
	ArrayFiltersAny Behavior = "array-filters=any" // products that have one of the values

	CanceledPlanUpdateRefused Behavior = "cancelled-plan-update=refused" // a wrong state
	CanceledPlanUpdateAllowed Behavior = "cancelled-plan-update=allowed" // it is edited and stays cancelled

	CheckoutStateActive      Behavior = "checkout-state=active"        // only active plans
	CheckoutStateNotCanceled Behavior = "checkout-state=not-cancelled" // drafts, too

	ClinicKeyHeaderOptional       Behavior = "clinic-key-header=optional"        // the bearer token alone identifies the clinic
	ClinicKeyHeaderClinicEndpoint Behavior = "clinic-key-header=clinic-endpoint" // GET /clinic needs it
	ClinicKeyHeaderAlways         Behavior = "clinic-key-header=always"          // every call with a bearer token needs it

	DefaultPageSize25 Behavior = "default-page-size=25" // 25 items
	DefaultPageSize20 Behavior = "default-page-size=20" // 20 items
	DefaultPageSize2  Behavior = "default-page-size=2"  // 2 items, which finds out who reads only one page

	DeliveryConditionsEnforced Behavior = "delivery-conditions=enforced" // events without one are not sent
	DeliveryConditionsOff      Behavior = "delivery-conditions=off"      // every event is sent

	DeliveryLogDelivery Behavior = "delivery-log=delivery" // one row, as the latest attempt left it
	DeliveryLogAttempt  Behavior = "delivery-log=attempt"  // one row for each attempt

	DeliveryTimeout2s Behavior = "delivery-timeout=2s" // 2 seconds
	DeliveryTimeout1s Behavior = "delivery-timeout=1s" // 1 second
	DeliveryTimeout5s Behavior = "delivery-timeout=5s" // 5 seconds

	DraftCancellationRefused Behavior = "draft-cancellation=refused" // a wrong state
	DraftCancellationAllowed Behavior = "draft-cancellation=allowed" // the draft is cancelled

	DraftInvitationNone    Behavior = "draft-invitation=none"    // null
	DraftInvitationPresent Behavior = "draft-invitation=present" // as an active plan has

	DraftUpdateStaysDraft Behavior = "draft-update=stays-draft" // none
	DraftUpdateActivates  Behavior = "draft-update=activates"   // a draft that is updated becomes active

	EmptyValuesNull   Behavior = "empty-values=null"   // null
	EmptyValuesAbsent Behavior = "empty-values=absent" // left out, but for those of meta

	ErrorShapeByStatus      Behavior = "error-shape=by-status"       // error as a list with 422, as a text with 401 and 403, with the status otherwise
	ErrorShapeText          Behavior = "error-shape=text"            // {"error":"…"} for every status
	ErrorShapeStatusAndText Behavior = "error-shape=status-and-text" // {"status":…,"error":"…"} for every status
	ErrorShapeCodedList     Behavior = "error-shape=coded-list"      // {"errors":[{"code":"…","message":"…"}]} for every status

	EventTimesApart      Behavior = "event-times=apart"        // an event is at least a millisecond later than the one before of the same object, and may be ahead of the clock; updated_at of a plan goes with it
	EventTimesAsTheyFall Behavior = "event-times=as-they-fall" // events have the clock's time, which can be the same

	ExpiresInNumber Behavior = "expires-in=number" // 7200
	ExpiresInString Behavior = "expires-in=string" // 7200

	IncompletePlanRefused   Behavior = "incomplete-plan=refused"   // a wrong state; an update that would activate it leaves it a draft
	IncompletePlanActivated Behavior = "incomplete-plan=activated" // it is; a checkout needs both all the same

	IntegrationActivationFirstKey     Behavior = "integration-activation=first-key"      // the first request with the key activates
	IntegrationActivationFromTheStart Behavior = "integration-activation=from-the-start" // integrations are active without a request, and clinic_key.activated is never sent for a new one

	LinkPractitionerToken    Behavior = "link-practitioner=token"    // it can where the token is a practitioner's, who is it then
	LinkPractitionerRequired Behavior = "link-practitioner=required" // a validation failure without

	MetadataTypeOptional Behavior = "metadata-type=optional" // all types are looked through
	MetadataTypeRequired Behavior = "metadata-type=required" // a validation failure without

	MissingScopeStatus403 Behavior = "missing-scope-status=403" // status 403
	MissingScopeStatus404 Behavior = "missing-scope-status=404" // status 404

	OversizedPageClamped Behavior = "oversized-page=clamped" // 100 items
	OversizedPageRefused Behavior = "oversized-page=refused" // a validation failure

	PageBeyondLastEmpty    Behavior = "page-beyond-last=empty"     // no items
	PageBeyondLastNotFound Behavior = "page-beyond-last=not-found" // 404

	PlainHTTPStatus403 Behavior = "plain-http-status=403" // status 403
	PlainHTTPStatus400 Behavior = "plain-http-status=400" // status 400

	PlanCreatedEventOnActivation Behavior = "plan-created-event=on-activation" // a draft makes treatment_plan.created when it is activated
	PlanCreatedEventOnCreation   Behavior = "plan-created-event=on-creation"   // a draft makes it at once, and treatment_plan.updated when it is activated

	ProbeOff            Behavior = "probe=off"             // none
	ProbeOnRegistration Behavior = "probe=on-registration" // once, when the endpoint is registered
	ProbeBeforeEach     Behavior = "probe=before-each"     // then, and before every attempt

	ProbeSignatureSigned   Behavior = "probe-signature=signed"   // as any other
	ProbeSignatureUnsigned Behavior = "probe-signature=unsigned" // without the header

	ProductEventClinicAbsent  Behavior = "product-event-clinic=absent"  // webhooks of product events have none
	ProductEventClinicPresent Behavior = "product-event-clinic=present" // they have that of the integration they are sent to; the event lists have none

	RateLimitOff      Behavior = "rate-limit=off"        // there is none
	RateLimit5000In5m Behavior = "rate-limit=5000-in-5m" // 5,000 requests in a rolling 5 minutes, then 429

	RefreshRotationNone      Behavior = "refresh-rotation=none"      // the refresh token stays
	RefreshRotationGrace     Behavior = "refresh-rotation=grace"     // a new one; the old one ends with the first use of the new access token
	RefreshRotationImmediate Behavior = "refresh-rotation=immediate" // a new one; the old one ends at once

	RefreshTokenRevocationRevoked Behavior = "refresh-token-revocation=revoked" // as an access token
	RefreshTokenRevocationUnknown Behavior = "refresh-token-revocation=unknown" // it counts as an unknown token

	ResumeAfterEnableDropped Behavior = "resume-after-enable=dropped" // nothing is resumed; the event lists have them
	ResumeAfterEnableResumed Behavior = "resume-after-enable=resumed" // what has attempts left is attempted at once

	RetrySchedule1m5m30m1h5h Behavior = "retry-schedule=1m-5m-30m-1h-5h" // the waits that are seen
	RetryScheduleDoubling    Behavior = "retry-schedule=doubling"        // 5, 10, 20, 40 and 80 minutes

	RevocationReachConsent Behavior = "revocation-reach=consent" // they end, with everything that came from the user's consent
	RevocationReachPair    Behavior = "revocation-reach=pair"    // they stay good until they expire

	SuccessStatus201ForCreated Behavior = "success-status=201-for-created" // 201 for created patients, practitioners, staff, plans and checkouts
	SuccessStatusAlways200     Behavior = "success-status=always-200"      // 200 for everything

	UnansweredStatusNull Behavior = "unanswered-status=null" // null
	UnansweredStatusZero Behavior = "unanswered-status=zero" // 0

	UnknownFieldsIgnored Behavior = "unknown-fields=ignored" // they change nothing; the Journal has them
	UnknownFieldsRefused Behavior = "unknown-fields=refused" // they are a validation failure

	UnknownParametersIgnored Behavior = "unknown-parameters=ignored" // they change nothing; the Journal has them
	UnknownParametersRefused Behavior = "unknown-parameters=refused" // they are a validation failure

	UnknownTokenRevocationOk      Behavior = "unknown-token-revocation=ok"      // 200
	UnknownTokenRevocationRefused Behavior = "unknown-token-revocation=refused" // 400 invalid_request

	UnsortedListsOldestFirst Behavior = "unsorted-lists=oldest-first" // the order of creation
	UnsortedListsNewestFirst Behavior = "unsorted-lists=newest-first" // the reverse; similar products keep their ranking

	UnwrappedEventDataOrdersAndNewProducts Behavior = "unwrapped-event-data=orders-and-new-products" // order.placed and product.created are not wrapped
	UnwrappedEventDataNone                 Behavior = "unwrapped-event-data=none"                    // all data is wrapped under its kind

	ValidationStatus422 Behavior = "validation-status=422" // status 422
	ValidationStatus400 Behavior = "validation-status=400" // status 400

	VendorBackorderUnavailable Behavior = "vendor-backorder=unavailable" // it is not
	VendorBackorderBackordered Behavior = "vendor-backorder=backordered" // it is

	WebhookEnvelopeEvent        Behavior = "webhook-envelope=event"         // {"event":{…}}
	WebhookEnvelopeEventPayload Behavior = "webhook-envelope=event-payload" // {"event_payload":{"event":{…}}}

	WrongStateStatus422 Behavior = "wrong-state-status=422" // status 422
	WrongStateStatus409 Behavior = "wrong-state-status=409" // status 409
)
