package behavior

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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
		return model.TreatmentPlanUpdated
	}
	return model.TreatmentPlanCreated
}
