package events

import (
	"encoding/json"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/jsonscan"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Payload is the set of objects that events are about. The part of an event's type before the
// first period selects the object: "patient.updated" is about a [clinic.Patient], and every
// treatment_plan event is about a [treatmentplans.Plan], including the recommendation events.
type Payload interface {
	catalog.Product | clinic.Order | clinic.Patient | treatmentplans.Plan | ClinicKey
}

// Typed is an event with decoded data. It prints and logs like the [Event], without data. Data
// of the Event is the data as it arrived.
type Typed[T Payload] struct {
	Event

	// Object is the object that the event concerns. Fields that the platform left out are zero.
	Object T `json:"data"`

	// InvalidFields are the paths of the object's fields that cannot be decoded, such as
	// "line_items[0].quantity". They are zero in Object. "id" means that the object has no ID.
	InvalidFields []string `json:"-"`
}

// The typed events by their object, as short names for [Typed].
type (
	// ClinicKeyEvent is a clinic_key.activated or clinic_key.revoked event.
	ClinicKeyEvent = Typed[ClinicKey]

	// OrderEvent is an order.placed event.
	OrderEvent = Typed[clinic.Order]

	// PatientEvent is a patient.created or patient.updated event.
	PatientEvent = Typed[clinic.Patient]

	// ProductEvent is a product.created, product.updated or
	// product.description.updated event.
	ProductEvent = Typed[catalog.Product]

	// TreatmentPlanEvent is a treatment_plan.created, treatment_plan.updated or
	// treatment_plan.recommendation.updated event.
	TreatmentPlanEvent = Typed[treatmentplans.Plan]
)

// ClinicKey is the object of clinic_key events. The API does not show their data. Assumption:
// all fields exist, and may be empty.
//
// A clinic with several integrations receives a copy of the event for each integration.
// IntegrationID and ClinicID of the [Event] identify the receiver of the copy. The fields of
// the ClinicKey identify the integration that was activated or revoked.
type ClinicKey struct {
	ID            string `json:"id"`
	IntegrationID string `json:"integration_id"`
	ClinicID      string `json:"clinic_id"`
}

// As decodes the data of e. It reads data wrapped under the object's name, as the API shows
// it, and bare data. A field that cannot be decoded is zero and listed in
// [Typed].InvalidFields.
//
// The error is a [*DataError]. It matches
//
//   - [ErrNoData] if the event has no data, for example in a list,
//   - [ErrOtherObject] if the event is not about a T, and
//   - [ErrBadData] if the data is not an object, or lacks a documented ID.
//
// The API shows the data of patient.updated and treatment_plan.created only. Assumption: every
// other event contains the same object: bare in order.placed and product.created, wrapped in
// the rest. For these events an object without an ID is not an error: InvalidFields contains
// "id". Read the raw data of the [Event] in that case. clinic_key events may have any data, or
// none.
// API section: "Event" (data), "Event types".
func As[T Payload](e Event) (Typed[T], error) {
	object := objectOf[T]()
	fail := func(reason error, field string) (Typed[T], error) {
		return Typed[T]{}, &DataError{Type: e.Type, ID: e.ID, Field: field, Err: reason}
	}
	if e.Type.object() != object {
		return fail(ErrOtherObject, "")
	}
	typed := Typed[T]{Event: e}
	raw := unwrap(e.Data, object)
	if len(raw) == 0 || string(raw) == "null" {
		if object == "clinic_key" {
			return typed, nil
		}
		return fail(ErrNoData, "")
	}
	invalid, err := jsondecode.Unmarshal(raw, &typed.Object)
	shown := e.Type == TypePatientUpdated || e.Type == TypeTreatmentPlanCreated
	switch id := idOf(&typed.Object); {
	case object == "clinic_key":
	case err != nil:
		return fail(ErrBadData, "")
	case id == "" && shown:
		return fail(ErrBadData, "id")
	case id == "":
		typed.InvalidFields = []string{"id"}
	}
	for _, one := range invalid {
		if one.Field != "id" {
			typed.InvalidFields = append(typed.InvalidFields, one.Field)
		}
	}
	return typed, nil
}

// idOf returns the ID of the object that data points to.
func idOf(data any) string {
	switch object := data.(type) {
	case *catalog.Product:
		return object.ID
	case *clinic.Order:
		return object.ID
	case *clinic.Patient:
		return object.ID
	case *treatmentplans.Plan:
		return object.ID
	case *ClinicKey:
		return object.ID
	}
	return ""
}

// UnmarshalJSON reads a bare event object with its data, as encoding a Typed event writes it.
// The method of the embedded Event would leave the object undecoded.
func (t *Typed[T]) UnmarshalJSON(data []byte) error {
	var e Event
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	typed, err := As[T](e)
	if err != nil {
		return err
	}
	*t = typed
	return nil
}

// objectOf returns the platform's name for T in types and wrappers.
func objectOf[T Payload]() string {
	switch any(*new(T)).(type) {
	case catalog.Product:
		return "product"
	case clinic.Order:
		return "order"
	case clinic.Patient:
		return "patient"
	case treatmentplans.Plan:
		return "treatment_plan"
	}
	return "clinic_key"
}

// unwrap returns the object or null under the given name in data, or data itself if there is
// none.
func unwrap(data []byte, name string) []byte {
	inner := data
	s := scan(data)
	if s.Next() != '{' {
		return data
	}
	s.Members(1, func(key []byte) bool {
		first := s.Next()
		start := s.Pos
		if !s.Value(1) {
			return false
		}
		if (first == '{' || first == 'n') && string(jsonscan.Unquote(key)) == name {
			inner = data[start:s.Pos]
		}
		return true
	})
	return inner
}
