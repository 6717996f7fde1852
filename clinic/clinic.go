// Package clinic reads and writes a clinic's records: the clinic itself, its
// patients with their addresses and orders, its practitioners and staff, the
// categories it sorts products into, and the metadata that ties these records to
// the integrator's own.
//
// Patients are people. Every type of this package that describes one prints its
// type and id only, whatever the verb; read the fields to see the rest. In an unexported
// field of your struct fmt prints all fields, as a dump by reflection does. See "Patient
// data" in package api.
//
// A log line shows them so, too, with one exception to know of: slog asks a value how
// it wants to be logged, but not the elements of a slice, a map or another struct.
// The text handler prints those, and shows ids; the JSON handler encodes them, and
// would show patients in full. Log patients one by one, or their ids, or give the
// JSON handler a ReplaceAttr that prints what is no plain value; see the example.
//
// API sections: "Clinic, addresses, categories", "Orders", "Patients",
// "Practitioners", "Staff", "Metadata".
package clinic

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Clinic is the clinic that the token, or the clinic key, belongs to.
// API section: "Clinic".
type Clinic struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	PatientCount      int    `json:"patient_count"`
	PractitionerCount int    `json:"practitioner_count"`

	// Discount applies to all orders of all patients, in addition to a
	// patient's own.
	Discount float64 `json:"discount"`

	// DispensaryURL is the clinic's page for its patients.
	DispensaryURL string `json:"dispensary_url"`

	// IntegrationID identifies the clinic's connection with the application;
	// events carry it.
	IntegrationID string `json:"integration_id"`

	// IntegrationActivatedAt is when the clinic key was first used; zero if it never was.
	// Until then the platform sends no webhook.
	IntegrationActivatedAt api.Timestamp `json:"integration_activated_at"`
}

// Service groups the calls on clinic records. Get it from the root client.
type Service struct {
	Addresses     Addresses
	Categories    Categories
	Orders        Orders
	Patients      Patients
	Practitioners Practitioners
	Staff         Staff

	t *transport.Client
}

// NewService returns the clinic's services. Only this module can call it: t is internal.
func NewService(t *transport.Client) Service {
	return Service{
		Addresses:     Addresses{t},
		Categories:    Categories{t},
		Orders:        Orders{t},
		Patients:      Patients{t},
		Practitioners: Practitioners{t},
		Staff:         Staff{t},
		t:             t,
	}
}

// Get returns the clinic. The first call with a valid clinic key activates the
// integration.
// API section: GET /clinic.
func (s Service) Get(ctx context.Context, options ...api.RequestOption) (*Clinic, error) {
	return transport.One[Clinic](ctx, s.t, transport.Call{Operation: operation.ClinicGet, Options: options})
}
