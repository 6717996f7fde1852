// Package rules turns the chosen variants of package behavior into the rules of a platform.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
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

// points sets the rules of each choice. A function treats every variant that it does not name
// as the default.
var points = map[string]func(*Set, behavior.Variant){
	// Responses
	"success-status": func(s *Set, v behavior.Variant) { s.AlwaysOK = v == behavior.SuccessStatusAlways200 },
	"error-shape": func(s *Set, v behavior.Variant) {
		s.ErrorShape = map[behavior.Variant]ErrorShape{
			behavior.ErrorShapeText: ShapeText, behavior.ErrorShapeStatusAndText: ShapeStatus, behavior.ErrorShapeCodedList: ShapeCoded,
		}[v]
	},
	"validation-status":    func(s *Set, v behavior.Variant) { s.Validation = pick(v == behavior.ValidationStatus400, 400, 422) },
	"wrong-state-status":   func(s *Set, v behavior.Variant) { s.WrongState = pick(v == behavior.WrongStateStatus409, 409, 422) },
	"missing-scope-status": func(s *Set, v behavior.Variant) { s.MissingScope = pick(v == behavior.MissingScopeStatus404, 404, 403) },
	"plain-http-status":    func(s *Set, v behavior.Variant) { s.PlainHTTP = pick(v == behavior.PlainHTTPStatus400, 400, 403) },
	"empty-values":         func(s *Set, v behavior.Variant) { s.DropNulls = v == behavior.EmptyValuesAbsent },
	"unknown-fields":       func(s *Set, v behavior.Variant) { s.RefuseUnread = v == behavior.UnknownFieldsRejected },
	"unknown-parameters":   func(s *Set, v behavior.Variant) { s.RefuseUnknown = v == behavior.UnknownParametersRejected },
	"rate-limit":           func(s *Set, v behavior.Variant) { s.Limited = v == behavior.RateLimit5000In5m },

	// Lists
	"default-page-size": func(s *Set, v behavior.Variant) {
		s.PageSize = pick(v == behavior.DefaultPageSize20, 20, pick(v == behavior.DefaultPageSize2, 2, 25))
	},
	"oversized-page":   func(s *Set, v behavior.Variant) { s.RefuseOversized = v == behavior.OversizedPageRejected },
	"page-beyond-last": func(s *Set, v behavior.Variant) { s.RefuseBeyond = v == behavior.PageBeyondLastNotFound },
	"unsorted-lists":   func(s *Set, v behavior.Variant) { s.NewestFirst = v == behavior.UnsortedListsNewestFirst },
	"array-filters":    func(s *Set, v behavior.Variant) { s.AnyFilter = v == behavior.ArrayFiltersAny },
	"vendor-backorder": func(s *Set, v behavior.Variant) { s.VendorBackorders = v == behavior.VendorBackorderBackordered },
	"metadata-lag": func(s *Set, v behavior.Variant) {
		s.MetadataLag = pick(v == behavior.MetadataLag5s, 5*time.Second, pick(v == behavior.MetadataLag1m, time.Minute, 0))
	},
	"metadata-type": func(s *Set, v behavior.Variant) { s.TypeNeeded = v == behavior.MetadataTypeRequired },

	// Tokens
	"refresh-rotation": func(s *Set, v behavior.Variant) {
		s.Rotation = pick(v == behavior.RefreshRotationGrace, RotationGrace, pick(v == behavior.RefreshRotationImmediate, RotationImmediate, RotationNone))
	},
	"access-token-after-refresh": func(s *Set, v behavior.Variant) { s.EndOldAccess = v == behavior.AccessTokenAfterRefreshEnded },
	"refresh-token-revocation":   func(s *Set, v behavior.Variant) { s.KeepRefreshTokens = v == behavior.RefreshTokenRevocationUnknown },
	"revocation-reach":           func(s *Set, v behavior.Variant) { s.RevokePair = v == behavior.RevocationReachPair },
	"unknown-token-revocation":   func(s *Set, v behavior.Variant) { s.RefuseUnknownToken = v == behavior.UnknownTokenRevocationRejected },
	"expires-in":                 func(s *Set, v behavior.Variant) { s.ExpiresAsText = v == behavior.ExpiresInString },
	"clinic-key-header": func(s *Set, v behavior.Variant) {
		s.KeyNeeded = pick(v == behavior.ClinicKeyHeaderAlways, KeyAlways, pick(v == behavior.ClinicKeyHeaderClinicEndpoint, KeyForClinic, keyOptional))
	},
	"integration-activation": func(s *Set, v behavior.Variant) { s.ActiveFromStart = v == behavior.IntegrationActivationFromTheStart },

	// Plans
	"draft-cancellation":   func(s *Set, v behavior.Variant) { s.CancelDrafts = v == behavior.DraftCancellationAllowed },
	"canceled-plan-update": func(s *Set, v behavior.Variant) { s.EditCanceled = v == behavior.CanceledPlanUpdateAllowed },
	"draft-update":         func(s *Set, v behavior.Variant) { s.UpdateActivates = v == behavior.DraftUpdateActivates },
	"link-practitioner":    func(s *Set, v behavior.Variant) { s.LinkNamesPractitioner = v == behavior.LinkPractitionerRequired },
	"incomplete-plan":      func(s *Set, v behavior.Variant) { s.ActivateIncomplete = v == behavior.IncompletePlanActivated },
	"checkout-state":       func(s *Set, v behavior.Variant) { s.CheckoutDrafts = v == behavior.CheckoutStateNotCanceled },
	"draft-invitation":     func(s *Set, v behavior.Variant) { s.InviteDrafts = v == behavior.DraftInvitationPresent },

	// Events
	"plan-created-event":   func(s *Set, v behavior.Variant) { s.DraftMakesEvent = v == behavior.PlanCreatedEventOnCreation },
	"event-times":          func(s *Set, v behavior.Variant) { s.EventsTie = v == behavior.EventTimesAsTheyFall },
	"product-event-clinic": func(s *Set, v behavior.Variant) { s.ClinicOnProducts = v == behavior.ProductEventClinicPresent },
	"unwrapped-event-data": func(s *Set, v behavior.Variant) { s.WrapAll = v == behavior.UnwrappedEventDataNone },

	// Webhooks
	"probe": func(s *Set, v behavior.Variant) {
		s.Probe = pick(v == behavior.ProbeBeforeEach, ProbeBeforeEach, pick(v == behavior.ProbeOnRegistration, probeOnRegistration, ProbeNever))
	},
	"probe-signature":     func(s *Set, v behavior.Variant) { s.UnsignedProbe = v == behavior.ProbeSignatureUnsigned },
	"delivery-conditions": func(s *Set, v behavior.Variant) { s.Unconditional = v == behavior.DeliveryConditionsOff },
	"delivery-timeout": func(s *Set, v behavior.Variant) {
		s.SendTimeout = pick(v == behavior.DeliveryTimeout1s, time.Second, pick(v == behavior.DeliveryTimeout5s, 5*time.Second, 2*time.Second))
	},
	"retry-schedule": func(s *Set, v behavior.Variant) {
		s.RetrySchedule = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour}
		if v == behavior.RetryScheduleDoubling {
			s.RetrySchedule = []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute}
		}
	},
	"resume-after-enable": func(s *Set, v behavior.Variant) { s.Resume = v == behavior.ResumeAfterEnableResumed },
	"delivery-log":        func(s *Set, v behavior.Variant) { s.LogAttempts = v == behavior.DeliveryLogAttempt },
	"unanswered-status":   func(s *Set, v behavior.Variant) { s.ZeroStatus = v == behavior.UnansweredStatusZero },
	"webhook-envelope": func(s *Set, v behavior.Variant) {
		s.PayloadName = pick(v == behavior.WebhookEnvelopeEventPayload, "event_payload", "")
	},
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// choices is made once, because every choice is cloned.
var choices = sync.OnceValue(behavior.Choices)

// Choose applies a variant.
func (r *Set) Choose(v behavior.Variant) error {
	name, _, _ := strings.Cut(string(v), "=")
	var names []string
	for _, c := range choices() {
		if names = append(names, c.Name); c.Name != name {
			continue
		}
		if !slices.Contains(c.Variants, v) {
			var known []string
			for _, other := range c.Variants {
				known = append(known, other.Name())
			}
			return fmt.Errorf("dispensarytest: %s has no variant %q, only %s", name, v.Name(), strings.Join(known, ", "))
		}
		points[name](r, v)
		r.Chosen = maps.Clone(r.Chosen)
		r.Chosen[name] = v
		return nil
	}
	return errors.New("dispensarytest: " + closestmatch.Unknown("behavior", name, names))
}

// Defaults returns the rules of every new platform.
var Defaults = sync.OnceValue(func() Set {
	s := Set{Chosen: make(map[string]behavior.Variant)}
	for _, c := range choices() {
		points[c.Name](&s, c.Variants[0])
		s.Chosen[c.Name] = c.Variants[0]
	}
	return s
})

// fileVersion is the version of the file of behaviors, which package probe writes.
const fileVersion = 1

// ChooseFile applies the behaviors in a file. If the file is invalid, it changes nothing:
//
//	{"version": 1, "behaviors": ["probe=before-each"]}
func (r *Set) ChooseFile(content []byte) error {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return fmt.Errorf("not a file of behaviors: %w", err)
	}
	switch {
	case head.Version == nil:
		return errors.New("not a file of behaviors: it has no version")
	case *head.Version != fileVersion:
		return fmt.Errorf("it has version %d; this program reads version %d", *head.Version, fileVersion)
	}
	var file struct {
		Version   int      `json:"version"`
		Behaviors []string `json:"behaviors"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("not a file of behaviors: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a file of behaviors: it has data after the object")
	}
	if file.Behaviors == nil {
		return errors.New("not a file of behaviors: it has no behaviors")
	}
	return r.chooseAll(file.Behaviors)
}

func (r *Set) chooseAll(behaviors []string) error {
	changed, named := *r, make(map[string]bool)
	for i, text := range behaviors {
		point, _, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return fmt.Errorf("behaviors[%d]: %q is not of the form point=variant", i, text)
		case named[point]:
			return fmt.Errorf("behaviors[%d]: %s is set twice", i, point)
		}
		named[point] = true
		if err := changed.Choose(behavior.Variant(text)); err != nil {
			return fmt.Errorf("behaviors[%d]: %s", i, strings.TrimPrefix(err.Error(), "dispensarytest: "))
		}
	}
	*r = changed
	return nil
}
