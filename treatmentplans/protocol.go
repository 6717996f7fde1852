package treatmentplans

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Protocol is a reusable treatment plan. Lists carry ID, Name, CurrentState and
// OwnershipType; the rest comes with [Protocols.Get].
// It prints as its type and id: see "Patient data" in package api.
// API section: "Protocol".
type Protocol struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	CurrentState State  `json:"current_state"`

	// OwnershipType comes only with lists.
	OwnershipType Ownership `json:"ownership_type"`

	Practitioner    PersonRef                `json:"practitioner"`
	PersonalMessage string                   `json:"personal_message"`
	Recommendations []ProtocolRecommendation `json:"recommendations"`
}

// Ownership says whose protocol it is. Values that are not listed here may come.
type Ownership string

// The kinds of ownership: made by the practitioner, or shared with them. OwnershipAny
// is for filters only. Only Owned is shown by the API, the others are an
// assumption.
const (
	OwnershipOwned  Ownership = "owned"
	OwnershipShared Ownership = "shared"
	OwnershipAny    Ownership = "all"
)

// ProtocolRecommendation is one product of a protocol or template.
// API section: "Protocol" (recommendations).
type ProtocolRecommendation struct {
	VariantID           string    `json:"variant_id"`
	Refill              bool      `json:"refill"`
	DosageAmount        string    `json:"dosage_amount"`
	DosageFrequency     Frequency `json:"dosage_frequency"`
	DosageDuration      Duration  `json:"dosage_duration"` // empty where none is set
	DosagePermutations  string    `json:"dosage_permutations"`
	DosageFormat        Format    `json:"dosage_format"`
	QuantityRecommended int       `json:"quantity_recommended"`
}

// Dosage returns the dosage that the recommendation has in a plan. DosagePermutations has no
// field in a plan, see [Protocol.NewPlan].
func (r ProtocolRecommendation) Dosage() Dosage {
	return Dosage{Amount: r.DosageAmount, Frequency: r.DosageFrequency, Duration: r.DosageDuration, Format: r.DosageFormat}
}

// Protocols calls the protocol endpoints. Get it from [Service].
type Protocols struct{ t *transport.Client }

// Get returns one protocol with its recommendations. An unknown id matches
// [api.ErrNotFound].
// API section: GET /clinic/protocols/<id>.
func (s Protocols) Get(ctx context.Context, id string, options ...api.RequestOption) (*Protocol, error) {
	return transport.One[Protocol](ctx, s.t, transport.Call{Operation: operation.ProtocolGet, Path: []string{id}, Options: options})
}

// ProtocolListOptions select and sort a practitioner's protocols.
// API section: GET /clinic/practitioners/<practitioner_id>/protocols.
type ProtocolListOptions struct {
	CurrentState State `url:"current_state,omitempty"`

	// OwnershipType is an assumption: the API does not list it.
	OwnershipType Ownership `url:"ownership_type,omitempty"`

	// SortBy is the platform's own order where it is empty.
	SortBy    ProtocolSort  `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`
}

// ProtocolSort is a field that protocols are sorted by.
type ProtocolSort string

// The fields that protocols are sorted by.
const (
	ProtocolSortName  ProtocolSort = "name"
	ProtocolSortState ProtocolSort = "current_state"
)

// ListForPractitioner returns a practitioner's protocols.
// API section: GET /clinic/practitioners/<practitioner_id>/protocols.
func (s Protocols) ListForPractitioner(practitionerID string, o ProtocolListOptions, options ...api.RequestOption) *api.List[Protocol] {
	return transport.NewList[Protocol](s.t, transport.Call{Operation: operation.ProtocolList, Path: []string{practitionerID}, Query: o, Options: options})
}

// Format prints type and id only.
func (p Protocol) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Protocol", p.ID) }

// LogValue logs type and id only.
func (p Protocol) LogValue() slog.Value { return redact.LogValue("treatmentplans.Protocol", p.ID) }
