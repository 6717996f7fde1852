// Package clinic reads and writes a clinic's records: the clinic itself, its patients with
// their addresses and orders, its practitioners, its staff and its product categories. It also
// reads and writes the metadata that links these records to your own.
//
//	patient, err := client.Clinic.Patients.Create(ctx, clinic.PatientCreate{
//		FirstName: "Ada", LastName: "Example", Email: "ada@example.com",
//		Metadata: clinic.Metadata{ID: "ehr-4711"},
//	})
//
// # Privacy
//
// Every type of this package with personal data prints only its type and ID, for every verb.
// Read its fields for the rest. In an unexported field of your struct, fmt prints all fields,
// as a dump by reflection does. See "Patient data" in package api.
//
// Logs show only type and ID too, with one exception: slog calls LogValue on a value, but not
// on the elements of a slice, a map or another struct. The text handler prints those elements
// with fmt and shows IDs. The JSON handler encodes them and would show patients in full. Log
// patients one by one, log their IDs, or give the JSON handler a ReplaceAttr that prints every
// value that is not plain. See the example.
//
// API sections: "Clinic, addresses, categories", "Orders", "Patients", "Practitioners",
// "Staff", "Metadata".
package clinic

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Clinic is the clinic of the token or of the clinic key.
// API section: "Clinic".
type Clinic struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	PatientCount      int    `json:"patient_count"`
	PractitionerCount int    `json:"practitioner_count"`

	// Discount is the percentage that applies to all orders of all patients, in addition to a
	// patient's own discount.
	Discount float64 `json:"discount"`

	// DispensaryURL is the clinic's page for its patients.
	DispensaryURL string `json:"dispensary_url"`

	// IntegrationID identifies the clinic's integration with the application. Events contain
	// it.
	IntegrationID string `json:"integration_id"`

	// IntegrationActivatedAt is the time of the first request with the clinic key, or zero if
	// there was none. Until then the platform sends no webhook.
	IntegrationActivatedAt api.Timestamp `json:"integration_activated_at"`
}

// Service contains the services for clinic records. Get it from the root client.
type Service struct {
	Addresses     Addresses
	Categories    Categories
	Orders        Orders
	Patients      Patients
	Practitioners Practitioners
	Staff         Staff

	t *transport.Client
}

// NewService returns the services for clinic records. It is for this module only: t is
// internal.
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
