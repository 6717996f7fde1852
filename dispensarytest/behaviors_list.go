package dispensarytest

// The variants of every point that the API leaves open; see [BehaviorChoices] for the
// sections of the API and the reasons.
const (
	// access-token-after-refresh: the first is the default.
	AccessTokenAfterRefreshKept  Behavior = "access-token-after-refresh=kept"  // it stays good until it expires
	AccessTokenAfterRefreshEnded Behavior = "access-token-after-refresh=ended" // it ends with the refresh

	// array-filters: the first is the default.
	ArrayFiltersAll Behavior = "array-filters=all" // products that have every value
	ArrayFiltersAny Behavior = "array-filters=any" // products that have one of the values

	// cancelled-plan-update: the first is the default.
	CancelledPlanUpdateRefused Behavior = "cancelled-plan-update=refused" // a wrong state
	CancelledPlanUpdateAllowed Behavior = "cancelled-plan-update=allowed" // it is edited and stays cancelled

	// checkout-state: the first is the default.
	CheckoutStateActive       Behavior = "checkout-state=active"        // only active plans
	CheckoutStateNotCancelled Behavior = "checkout-state=not-cancelled" // drafts, too

	// clinic-key-header: the first is the default.
	ClinicKeyHeaderOptional       Behavior = "clinic-key-header=optional"        // the bearer token alone identifies the clinic
	ClinicKeyHeaderClinicEndpoint Behavior = "clinic-key-header=clinic-endpoint" // GET /clinic needs it
	ClinicKeyHeaderAlways         Behavior = "clinic-key-header=always"          // every call with a bearer token needs it

	// default-page-size: the first is the default.
	DefaultPageSize25 Behavior = "default-page-size=25" // 25 items
	DefaultPageSize20 Behavior = "default-page-size=20" // 20 items
	DefaultPageSize2  Behavior = "default-page-size=2"  // 2 items, which finds out who reads only one page

	// delivery-conditions: the first is the default.
	DeliveryConditionsEnforced Behavior = "delivery-conditions=enforced" // events without one are not sent
	DeliveryConditionsOff      Behavior = "delivery-conditions=off"      // every event is sent

	// delivery-log: the first is the default.
	DeliveryLogDelivery Behavior = "delivery-log=delivery" // one row, as the latest attempt left it
	DeliveryLogAttempt  Behavior = "delivery-log=attempt"  // one row for each attempt

	// delivery-timeout: the first is the default.
	DeliveryTimeout2s Behavior = "delivery-timeout=2s" // 2 seconds
	DeliveryTimeout1s Behavior = "delivery-timeout=1s" // 1 second
	DeliveryTimeout5s Behavior = "delivery-timeout=5s" // 5 seconds

	// draft-cancellation: the first is the default.
	DraftCancellationRefused Behavior = "draft-cancellation=refused" // a wrong state
	DraftCancellationAllowed Behavior = "draft-cancellation=allowed" // the draft is cancelled

	// draft-invitation: the first is the default.
	DraftInvitationNone    Behavior = "draft-invitation=none"    // null
	DraftInvitationPresent Behavior = "draft-invitation=present" // as an active plan has

	// draft-update: the first is the default.
	DraftUpdateStaysDraft Behavior = "draft-update=stays-draft" // none
	DraftUpdateActivates  Behavior = "draft-update=activates"   // a draft that is updated becomes active

	// empty-values: the first is the default.
	EmptyValuesNull   Behavior = "empty-values=null"   // null
	EmptyValuesAbsent Behavior = "empty-values=absent" // left out, but for those of meta

	// error-shape: the first is the default.
	ErrorShapeByStatus      Behavior = "error-shape=by-status"       // error as a list with 422, as a text with 401 and 403, with the status otherwise
	ErrorShapeText          Behavior = "error-shape=text"            // {"error":"…"} for every status
	ErrorShapeStatusAndText Behavior = "error-shape=status-and-text" // {"status":…,"error":"…"} for every status
	ErrorShapeCodedList     Behavior = "error-shape=coded-list"      // {"errors":[{"code":"…","message":"…"}]} for every status

	// event-times: the first is the default.
	EventTimesApart      Behavior = "event-times=apart"        // an event is at least a millisecond later than the one before of the same object, and may be ahead of the clock; updated_at of a plan goes with it
	EventTimesAsTheyFall Behavior = "event-times=as-they-fall" // events have the clock's time, which can be the same

	// expires-in: the first is the default.
	ExpiresInNumber Behavior = "expires-in=number" // 7200
	ExpiresInString Behavior = "expires-in=string" // 7200

	// incomplete-plan: the first is the default.
	IncompletePlanRefused   Behavior = "incomplete-plan=refused"   // a wrong state; an update that would activate it leaves it a draft
	IncompletePlanActivated Behavior = "incomplete-plan=activated" // it is; a checkout needs both all the same

	// integration-activation: the first is the default.
	IntegrationActivationFromTheStart Behavior = "integration-activation=from-the-start" // integrations are active
	IntegrationActivationFirstKey     Behavior = "integration-activation=first-key"      // the first request with the key activates

	// link-practitioner: the first is the default.
	LinkPractitionerToken    Behavior = "link-practitioner=token"    // it can where the token is a practitioner's, who is it then
	LinkPractitionerRequired Behavior = "link-practitioner=required" // a validation failure without

	// metadata-type: the first is the default.
	MetadataTypeOptional Behavior = "metadata-type=optional" // all types are looked through
	MetadataTypeRequired Behavior = "metadata-type=required" // a validation failure without

	// missing-scope-status: the first is the default.
	MissingScopeStatus403 Behavior = "missing-scope-status=403" // status 403
	MissingScopeStatus404 Behavior = "missing-scope-status=404" // status 404

	// oversized-page: the first is the default.
	OversizedPageClamped Behavior = "oversized-page=clamped" // 100 items
	OversizedPageRefused Behavior = "oversized-page=refused" // a validation failure

	// page-beyond-last: the first is the default.
	PageBeyondLastEmpty    Behavior = "page-beyond-last=empty"     // no items
	PageBeyondLastNotFound Behavior = "page-beyond-last=not-found" // 404

	// plain-http-status: the first is the default.
	PlainHTTPStatus403 Behavior = "plain-http-status=403" // status 403
	PlainHTTPStatus400 Behavior = "plain-http-status=400" // status 400

	// plan-created-event: the first is the default.
	PlanCreatedEventOnActivation Behavior = "plan-created-event=on-activation" // a draft makes treatment_plan.created when it is activated
	PlanCreatedEventOnCreation   Behavior = "plan-created-event=on-creation"   // a draft makes it at once, and treatment_plan.updated when it is activated

	// probe: the first is the default.
	ProbeOff            Behavior = "probe=off"             // none
	ProbeOnRegistration Behavior = "probe=on-registration" // once, when the endpoint is registered
	ProbeBeforeEach     Behavior = "probe=before-each"     // then, and before every attempt

	// probe-signature: the first is the default.
	ProbeSignatureSigned   Behavior = "probe-signature=signed"   // as any other
	ProbeSignatureUnsigned Behavior = "probe-signature=unsigned" // without the header

	// product-event-clinic: the first is the default.
	ProductEventClinicAbsent  Behavior = "product-event-clinic=absent"  // webhooks of product events have none
	ProductEventClinicPresent Behavior = "product-event-clinic=present" // they have that of the integration they are sent to; the event lists have none

	// rate-limit: the first is the default.
	RateLimitOff      Behavior = "rate-limit=off"        // there is none
	RateLimit5000In5m Behavior = "rate-limit=5000-in-5m" // 5,000 requests in a rolling 5 minutes, then 429

	// refresh-rotation: the first is the default.
	RefreshRotationNone      Behavior = "refresh-rotation=none"      // the refresh token stays
	RefreshRotationGrace     Behavior = "refresh-rotation=grace"     // a new one; the old one ends with the first use of the new access token
	RefreshRotationImmediate Behavior = "refresh-rotation=immediate" // a new one; the old one ends at once

	// refresh-token-revocation: the first is the default.
	RefreshTokenRevocationRevoked Behavior = "refresh-token-revocation=revoked" // as an access token
	RefreshTokenRevocationUnknown Behavior = "refresh-token-revocation=unknown" // it counts as an unknown token

	// resume-after-enable: the first is the default.
	ResumeAfterEnableDropped Behavior = "resume-after-enable=dropped" // nothing is resumed; the event lists have them
	ResumeAfterEnableResumed Behavior = "resume-after-enable=resumed" // what has attempts left is attempted at once

	// retry-schedule: the first is the default.
	RetrySchedule1m5m30m1h5h Behavior = "retry-schedule=1m-5m-30m-1h-5h" // the waits that are seen
	RetryScheduleDoubling    Behavior = "retry-schedule=doubling"        // 5, 10, 20, 40 and 80 minutes

	// revocation-reach: the first is the default.
	RevocationReachConsent Behavior = "revocation-reach=consent" // they end, with everything that came from the user's consent
	RevocationReachPair    Behavior = "revocation-reach=pair"    // they stay good until they expire

	// success-status: the first is the default.
	SuccessStatus201ForCreated Behavior = "success-status=201-for-created" // 201 for created patients, practitioners, staff, plans and checkouts
	SuccessStatusAlways200     Behavior = "success-status=always-200"      // 200 for everything

	// unanswered-status: the first is the default.
	UnansweredStatusNull Behavior = "unanswered-status=null" // null
	UnansweredStatusZero Behavior = "unanswered-status=zero" // 0

	// unknown-fields: the first is the default.
	UnknownFieldsIgnored Behavior = "unknown-fields=ignored" // they change nothing; the Journal has them
	UnknownFieldsRefused Behavior = "unknown-fields=refused" // they are a validation failure

	// unknown-parameters: the first is the default.
	UnknownParametersIgnored Behavior = "unknown-parameters=ignored" // they change nothing; the Journal has them
	UnknownParametersRefused Behavior = "unknown-parameters=refused" // they are a validation failure

	// unknown-token-revocation: the first is the default.
	UnknownTokenRevocationOk      Behavior = "unknown-token-revocation=ok"      // 200
	UnknownTokenRevocationRefused Behavior = "unknown-token-revocation=refused" // 400 invalid_request

	// unsorted-lists: the first is the default.
	UnsortedListsOldestFirst Behavior = "unsorted-lists=oldest-first" // the order of creation
	UnsortedListsNewestFirst Behavior = "unsorted-lists=newest-first" // the reverse; similar products keep their ranking

	// unwrapped-event-data: the first is the default.
	UnwrappedEventDataOrdersAndNewProducts Behavior = "unwrapped-event-data=orders-and-new-products" // order.placed and product.created are not wrapped
	UnwrappedEventDataNone                 Behavior = "unwrapped-event-data=none"                    // all data is wrapped under its kind

	// validation-status: the first is the default.
	ValidationStatus422 Behavior = "validation-status=422" // status 422
	ValidationStatus400 Behavior = "validation-status=400" // status 400

	// vendor-backorder: the first is the default.
	VendorBackorderUnavailable Behavior = "vendor-backorder=unavailable" // it is not
	VendorBackorderBackordered Behavior = "vendor-backorder=backordered" // it is

	// webhook-envelope: the first is the default.
	WebhookEnvelopeEvent        Behavior = "webhook-envelope=event"         // {"event":{…}}
	WebhookEnvelopeEventPayload Behavior = "webhook-envelope=event-payload" // {"event_payload":{"event":{…}}}

	// wrong-state-status: the first is the default.
	WrongStateStatus422 Behavior = "wrong-state-status=422" // status 422
	WrongStateStatus409 Behavior = "wrong-state-status=409" // status 409
)
