package clinic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Metadata ties a record of the platform to one of the integrator's. Patients,
// practitioners, staff and treatment plans have it.
//
// An update with api.Value(clinic.Metadata{}) or api.Null[clinic.Metadata]() removes the
// id. Assumption: the platform removes an id that is set to null.
// API section: "Metadata".
type Metadata struct {
	// ID is chosen by the integrator. Empty means that the record has no id.
	ID string `json:"id"`
}

// MarshalJSON writes an empty ID as null, so that an update removes the id.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m.ID == "" {
		return []byte(`{"id":null}`), nil
	}
	type plain Metadata
	return json.Marshal(plain(m))
}

// MetadataEntry is a record that was found by the integrator's id.
// It prints as its type and the metadata id: see "Patient data" in package api.
// API section: "Metadata entry".
type MetadataEntry struct {
	// ID is the integrator's.
	ID   string       `json:"id"`
	Type MetadataType `json:"type"`

	// Data is the whole record, see [MetadataEntry.Decode].
	Data json.RawMessage `json:"data"`
}

// MetadataType is a kind of record that carries metadata.
type MetadataType string

// The kinds of records that carry metadata.
const (
	MetadataTypePatient       MetadataType = "patient"
	MetadataTypePractitioner  MetadataType = "practitioner"
	MetadataTypeStaff         MetadataType = "staff"
	MetadataTypeTreatmentPlan MetadataType = "treatment_plan"
)

// Decode reads the record into a [Patient], a [Practitioner], a [StaffMember] or a
// treatment plan, depending on Type. A field that cannot be decoded is zero. The error of
// data that is no object matches [api.ErrBadResponse] and repeats nothing of the record.
func (e MetadataEntry) Decode(into any) error {
	if _, err := jsondecode.Unmarshal(e.Data, into); err != nil {
		return fmt.Errorf("%w: the data of a metadata entry does not fit %T", api.ErrBadResponse, into)
	}
	return nil
}

// MetadataEntries calls the metadata endpoint. Get it from [Service].
type MetadataEntries struct{ t *transport.Client }

// MetadataListOptions says which records are looked for.
// API section: GET /clinic/metadata.
type MetadataListOptions struct {
	// ID is the integrator's. Left empty, the call is assumed to be refused with
	// [api.ErrValidation].
	ID string `url:"id,omitempty"`

	// Type narrows the kind; empty finds all kinds.
	Type MetadataType `url:"type,omitempty"`

	api.Paging `url:"-"`
}

func (s MetadataEntries) list(o MetadataListOptions, options []api.RequestOption) transport.Call {
	return transport.Call{Operation: operation.MetadataList, Query: o, Options: options}
}

// List returns one page of the records that match.
// API section: GET /clinic/metadata.
func (s MetadataEntries) List(ctx context.Context, o MetadataListOptions, options ...api.RequestOption) (*api.Page[MetadataEntry], error) {
	return transport.List[MetadataEntry](ctx, s.t, s.list(o, options), o.Paging)
}

// Pages returns the records that match page by page; an error ends the sequence.
// API section: GET /clinic/metadata.
func (s MetadataEntries) Pages(ctx context.Context, o MetadataListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[MetadataEntry], error] {
	return transport.Pages[MetadataEntry](ctx, s.t, s.list(o, options), o.Paging)
}

// All returns the records that match one by one; an error ends the sequence.
// API section: GET /clinic/metadata.
func (s MetadataEntries) All(ctx context.Context, o MetadataListOptions, options ...api.RequestOption) iter.Seq2[MetadataEntry, error] {
	return transport.All[MetadataEntry](ctx, s.t, s.list(o, options), o.Paging)
}

// Format prints type and the integrator's id only.
func (e MetadataEntry) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.MetadataEntry", e.ID) }

// LogValue logs type and the integrator's id only.
func (e MetadataEntry) LogValue() slog.Value { return redact.LogValue("clinic.MetadataEntry", e.ID) }
