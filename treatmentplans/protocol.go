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

// Protocol is a reusable treatment plan. Lists return only ID, Name, CurrentState and
// OwnershipType. [Protocols.Get] returns the other fields. It prints as its type and ID: see
// "Patient data" in package api.
// API section: "Protocol".
type Protocol struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	CurrentState State  `json:"current_state"`

	// OwnershipType is set only in lists.
	OwnershipType Ownership `json:"ownership_type"`

	Practitioner    PersonRef                `json:"practitioner"`
	PersonalMessage string                   `json:"personal_message"`
	Recommendations []ProtocolRecommendation `json:"recommendations"`
}

// Ownership is the relation of a practitioner to a protocol. The platform may add values.
type Ownership string

// The kinds of ownership: created by the practitioner, or shared with them. OwnershipAny is
// for filters only. Assumption: values other than "owned", because the API shows no other.
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
	DosageDuration      Duration  `json:"dosage_duration"` // empty if none is set
	DosagePermutations  string    `json:"dosage_permutations"`
	DosageFormat        Format    `json:"dosage_format"`
	QuantityRecommended int       `json:"quantity_recommended"`
}

// Dosage returns the dosage of the recommendation in a plan. DosagePermutations has no field
// in a plan, see [Protocol.NewPlan].
func (r ProtocolRecommendation) Dosage() Dosage {
	return Dosage{Amount: r.DosageAmount, Frequency: r.DosageFrequency, Duration: r.DosageDuration, Format: r.DosageFormat}
}

// Protocols calls the protocol endpoints. Get it from [Service].
type Protocols struct{ t *transport.Client }

// Get returns one protocol with its recommendations. An unknown ID matches
// [api.ErrNotFound].
// API section: GET /clinic/protocols/<id>.
func (s Protocols) Get(ctx context.Context, id string, options ...api.RequestOption) (*Protocol, error) {
	return transport.One[Protocol](ctx, s.t, transport.Call{Operation: operation.ProtocolGet, Path: []string{id}, Options: options})
}

// ProtocolListOptions filter and sort a practitioner's protocols.
// API section: GET /clinic/practitioners/<practitioner_id>/protocols.
type ProtocolListOptions struct {
	CurrentState State `url:"current_state,omitempty"`

	// OwnershipType filters by ownership (assumption: the API does not list this parameter).
	OwnershipType Ownership `url:"ownership_type,omitempty"`

	// SortBy is the field to sort by. Empty means the platform's own order.
	SortBy    ProtocolSort  `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`
}

// ProtocolSort is a sort field of protocols.
type ProtocolSort string

// The sort fields of protocols.
const (
	ProtocolSortName  ProtocolSort = "name"
	ProtocolSortState ProtocolSort = "current_state"
)

// ListForPractitioner returns a practitioner's protocols.
// API section: GET /clinic/practitioners/<practitioner_id>/protocols.
func (s Protocols) ListForPractitioner(practitionerID string, o ProtocolListOptions, options ...api.RequestOption) *api.List[Protocol] {
	return transport.NewList[Protocol](s.t, transport.Call{Operation: operation.ProtocolList, Path: []string{practitionerID}, Query: o, Options: options})
}

// Format prints type and ID only.
func (p Protocol) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Protocol", p.ID) }

// LogValue logs type and ID only.
func (p Protocol) LogValue() slog.Value { return redact.LogValue("treatmentplans.Protocol", p.ID) }
