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
	"encoding/json"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
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

// Category is a group of the clinic's products. Assumption: the clinic assigns the products.
// The API does not document it.
// API section: "Category".
type Category struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// ProductCount is the number of products. It is 0 unless [Categories.Get] returned the
	// category.
	ProductCount int `json:"product_count"`
}

// Categories calls the category endpoints. Get it from [Service].
type Categories struct{ t *transport.Client }

// Get returns one category with the number of its products. An unknown ID
// matches [api.ErrNotFound].
// API section: GET /clinic/categories/<id>.
func (s Categories) Get(ctx context.Context, id string, options ...api.RequestOption) (*Category, error) {
	return transport.One[Category](ctx, s.t, transport.Call{Operation: operation.CategoryGet, Path: []string{id}, Options: options})
}

// List returns the clinic's categories.
// API section: GET /clinic/categories.
func (s Categories) List(options ...api.RequestOption) *api.List[Category] {
	return transport.NewList[Category](s.t, transport.Call{Operation: operation.CategoryList, Options: options})
}

// Products returns a category's products, in the form of product lists: see
// [catalog.Product].
// API section: GET /clinic/categories/<category_id>/products.
func (s Categories) Products(categoryID string, options ...api.RequestOption) *api.List[catalog.Product] {
	return transport.NewList[catalog.Product](s.t, transport.Call{Operation: operation.CategoryProductList, Path: []string{categoryID}, Options: options})
}

// Metadata links a record of the platform to one of yours. Patients, practitioners, staff and
// treatment plans have it.
//
// An update with api.Value(clinic.Metadata{}) or api.Null[clinic.Metadata]() removes the ID.
// Assumption: the platform removes an ID if an update sets it to null.
// API section: "Metadata".
type Metadata struct {
	// ID is an identifier of your choice. Empty means that the record has none.
	ID string `json:"id"`
}

// MarshalJSON writes an empty ID as null, so that an update removes it.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m.ID == "" {
		return []byte(`{"id":null}`), nil
	}
	type plain Metadata
	return json.Marshal(plain(m))
}
