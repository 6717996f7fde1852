package clinic

import (
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Address is an address of a patient.
// It prints as its type and ID: see "Patient data" in package api.
// API section: "Address".
type Address struct {
	ID string `json:"id"`

	// Address1 is the street. Address2 is the apartment, floor or building, or empty if there
	// is none.
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`

	// Zipcode is a ZIP code in the U.S. and a postal code in Canada. State is a state or a
	// province.
	Zipcode string `json:"zipcode"`
	City    string `json:"city"`
	State   string `json:"state"`
	Country string `json:"country"`
}

// Addresses calls the address endpoint. Get it from [Service].
type Addresses struct{ t *transport.Client }

// ListForPatient returns a patient's addresses.
// API section: GET /clinic/patients/<patient_id>/addresses.
func (s Addresses) ListForPatient(patientID string, options ...api.RequestOption) *api.List[Address] {
	return transport.NewList[Address](s.t, transport.Call{Operation: operation.AddressList, Path: []string{patientID}, Options: options})
}

// Format prints type and ID only.
func (a Address) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Address", a.ID) }

// LogValue logs type and ID only.
func (a Address) LogValue() slog.Value { return redact.LogValue("clinic.Address", a.ID) }
