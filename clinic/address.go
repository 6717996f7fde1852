package clinic

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Address is an address of a patient.
// It prints as its type and id: see "Patient data" in package api.
// API section: "Address".
type Address struct {
	ID string `json:"id"`

	// Address1 is the street, Address2 apartment, floor or building; the latter
	// is empty where there is none.
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`

	// Zipcode is a ZIP code in the U.S. and a postal code in Canada; State is a
	// state or a province.
	Zipcode string `json:"zipcode"`
	City    string `json:"city"`
	State   string `json:"state"`
	Country string `json:"country"`
}

// Addresses calls the address endpoint. Get it from [Service].
type Addresses struct{ t *transport.Client }

// AddressListOptions says which part of a patient's addresses is read.
type AddressListOptions struct {
	api.Paging
}

func (s Addresses) list(patientID string, options []api.RequestOption) transport.Call {
	return transport.Call{Operation: operation.AddressList, Path: []string{patientID}, Options: options}
}

// List returns one page of a patient's addresses.
// API section: GET /clinic/patients/<patient_id>/addresses.
func (s Addresses) List(ctx context.Context, patientID string, o AddressListOptions, options ...api.RequestOption) (*api.Page[Address], error) {
	return transport.List[Address](ctx, s.t, s.list(patientID, options), o.Paging)
}

// Pages returns a patient's addresses page by page; an error ends the sequence.
// API section: GET /clinic/patients/<patient_id>/addresses.
func (s Addresses) Pages(ctx context.Context, patientID string, o AddressListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Address], error] {
	return transport.Pages[Address](ctx, s.t, s.list(patientID, options), o.Paging)
}

// All returns a patient's addresses one by one; an error ends the sequence.
// API section: GET /clinic/patients/<patient_id>/addresses.
func (s Addresses) All(ctx context.Context, patientID string, o AddressListOptions, options ...api.RequestOption) iter.Seq2[Address, error] {
	return transport.All[Address](ctx, s.t, s.list(patientID, options), o.Paging)
}

// Format prints type and id only.
func (a Address) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Address", a.ID) }

// LogValue logs type and id only.
func (a Address) LogValue() slog.Value { return redact.LogValue("clinic.Address", a.ID) }
