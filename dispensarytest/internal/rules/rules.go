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

// Set is how the platform reads the points that the API leaves open. Zero
// values are the defaults, but for those that Defaults sets.
type Set struct {
	Chosen map[string]behavior.Variant // by the name of the choice; never written

	AlwaysOK        bool // 200 for created objects, too
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
	KeepRefreshTokens  bool // they cannot be revoked
	RevokePair         bool // and not the whole consent
	ExpiresAsText      bool
	KeyNeeded          keyRule
	ActiveFromStart    bool
	Limited            bool

	LinkNamesPractitioner bool // always

	ActivateIncomplete bool // drafts without a patient or recommendations

	CancelDrafts    bool
	EditCanceled    bool
	UpdateActivates bool
	CheckoutDrafts  bool
	InviteDrafts    bool
	DraftMakesEvent bool
	TypeNeeded      bool

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
	EventsTie        bool // those of one object can have the same time
}

// Variants returns the chosen variants in the order of [behavior.Choices].
func (r *Set) Variants() (all []behavior.Variant) {
	for _, name := range slices.Sorted(maps.Keys(r.Chosen)) {
		all = append(all, r.Chosen[name])
	}
	return all
}

// Current is what is in force. It can be replaced at any time.
type Current struct{ p atomic.Pointer[Set] }

func (c *Current) Get() *Set { return c.p.Load() }

func (c *Current) Set(r Set) { c.p.Store(&r) }

// ErrorShape is what the body of an error looks like.
type ErrorShape int

const (
	ShapeByStatus ErrorShape = iota
	ShapeText
	ShapeStatus
	ShapeCoded
)

// RefreshRotation is what a refresh does to the refresh token it used.
type RefreshRotation int

const (
	// RotationNone keeps the refresh token. The API says only that it does not
	// expire.
	RotationNone RefreshRotation = iota

	// RotationGrace answers with a new refresh token; the old one stays valid
	// until the new access token is first used. Assumption: seen in the field.
	RotationGrace

	// RotationImmediate answers with a new refresh token and ends the old one
	// at once. Assumption: the strictest reading.
	RotationImmediate
)

// probeMode is when the sender first asks an endpoint for its challenge with an
// empty body. The API does not mention it; that it happens at all is an
// assumption from what integrators have met.
type probeMode int

const (
	// ProbeNever sends events without asking first.
	ProbeNever probeMode = iota

	// probeOnRegistration asks once, when the endpoint is registered; an
	// endpoint that does not answer with the challenge is refused.
	probeOnRegistration

	// ProbeBeforeEach asks on registration and before every attempt; without
	// the challenge the attempt fails and the event is not sent.
	ProbeBeforeEach
)

// OnActivation is the type of the event that activating a draft makes.
func (r *Set) OnActivation() string {
	if r.DraftMakesEvent {
		return model.EventTreatmentPlanUpdated
	}
	return model.EventTreatmentPlanCreated
}

// keyRule is which requests have to carry a clinic key.
type keyRule int

const (
	keyOptional keyRule = iota
	KeyForClinic
	KeyAlways
)
