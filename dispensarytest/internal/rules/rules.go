// Package rules turns the chosen variants of package behavior into the rules of a platform.
package rules

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Set contains the platform's rules for the points that the API leaves open. A zero value is
// the default, except for the fields that Defaults sets.
type Set struct {
	Chosen map[string]behavior.Variant // by the name of the choice; never modified

	AlwaysOK        bool // 200 also for created objects
	ErrorShape      ErrorShape
	Validation      int // status
	WrongState      int // status
	MissingScope    int // status
	PlainHTTP       int // status
	DropNulls       bool
	RefuseUnknown   bool // query parameters
	RefuseUnread    bool // body fields
	PageSize        int
	RefuseOversized bool
	RefuseBeyond    bool
	NewestFirst     bool
	AnyFilter       bool

	VendorBackorders bool // count as backorders

	Rotation           RefreshRotation
	EndOldAccess       bool
	RefuseUnknownToken bool
	KeepRefreshTokens  bool // a refresh token cannot be revoked
	RevokePair         bool // without the whole consent
	ExpiresAsText      bool
	KeyNeeded          keyRule
	ActiveFromStart    bool
	Limited            bool

	LinkNamesPractitioner bool // required in every call

	ActivateIncomplete bool // drafts without a patient or recommendations

	CancelDrafts    bool
	EditCanceled    bool
	UpdateActivates bool
	CheckoutDrafts  bool
	InviteDrafts    bool
	DraftMakesEvent bool
	TypeNeeded      bool
	MetadataLag     time.Duration // until a lookup finds a new record

	Probe         probeMode
	UnsignedProbe bool
	Unconditional bool
	SendTimeout   time.Duration
	RetrySchedule []time.Duration
	Resume        bool
	LogAttempts   bool
	ZeroStatus    bool
	PayloadName   string // of the envelope
	WrapAll       bool   // event data

	ClinicOnProducts bool // in webhooks
	EventsTie        bool // events of one object can have the same time
}

// Variants returns the chosen variants in the order of [behavior.Choices].
func (r *Set) Variants() (all []behavior.Variant) {
	for _, name := range slices.Sorted(maps.Keys(r.Chosen)) {
		all = append(all, r.Chosen[name])
	}
	return all
}

// Current contains the rules in force. They can be replaced at any time.
type Current struct{ p atomic.Pointer[Set] }

func (c *Current) Get() *Set { return c.p.Load() }

func (c *Current) Set(r Set) { c.p.Store(&r) }

// ErrorShape is the format of an error body.
type ErrorShape int

const (
	ShapeByStatus ErrorShape = iota
	ShapeText
	ShapeStatus
	ShapeCoded
)

// RefreshRotation is the effect of a refresh on its refresh token.
type RefreshRotation int

const (
	// RotationNone keeps the refresh token. The API states only that it does not expire.
	RotationNone RefreshRotation = iota

	// RotationGrace returns a new refresh token. The old one stays valid until the first use
	// of the new access token. Assumption: observed in the field.
	RotationGrace

	// RotationImmediate returns a new refresh token and invalidates the old one at once.
	// Assumption: the strictest reading.
	RotationImmediate
)

// probeMode selects the requests with an empty body that ask an endpoint for its challenge.
// The API does not mention them. They are an assumption, because integrators have observed
// them.
type probeMode int

const (
	// ProbeNever sends events without a probe.
	ProbeNever probeMode = iota

	// probeOnRegistration sends a probe when the endpoint is registered, and rejects an
	// endpoint that does not respond with the challenge.
	probeOnRegistration

	// ProbeBeforeEach sends a probe on registration and before every attempt. Without the
	// challenge, the attempt fails and the event is not sent.
	ProbeBeforeEach
)

// OnActivation returns the type of the event that the activation of a draft emits.
func (r *Set) OnActivation() string {
	if r.DraftMakesEvent {
		return model.EventTreatmentPlanUpdated
	}
	return model.EventTreatmentPlanCreated
}

// keyRule selects the requests that must contain a clinic key.
type keyRule int

const (
	keyOptional keyRule = iota
	KeyForClinic
	KeyAlways
)
