package events

import (
	"encoding/json"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/jsonscan"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Payload lists the objects that events are about. The part of an event's type
// before the first period says which: "patient.updated" is about a
// [clinic.Patient], every treatment_plan event about a [treatmentplans.Plan],
// those of recommendations included.
type Payload interface {
	catalog.Product | clinic.Order | clinic.Patient | treatmentplans.Plan | ClinicKey
}

// Typed is an event with its data decoded. It prints and logs as the [Event]
// does, without data. The data as it arrived is in Event.Data.
type Typed[T Payload] struct {
	Event

	// Data is the object the event concerns. What the platform left out is
	// zero.
	Data T `json:"data"`
}

// The typed events by their object: short names for the instances of [Typed].
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

// ClinicKey is what clinic_key events are about. The API does not show their
// data, so nothing in it can make such an event unreadable; the event's ClinicID
// and IntegrationID say which clinic connected or disconnected.
type ClinicKey struct {
	// ID is empty where the data has none. Assumption: it has one, as every
	// other object of the platform.
	ID string `json:"id"`
}

// UnmarshalJSON reads what it knows and never fails.
func (k *ClinicKey) UnmarshalJSON(data []byte) error {
	var f fields
	s := scan(data)
	s.eventObject(0, &f)
	k.ID = text(f.id)
	return nil
}

// As decodes the data of e. Data is read wrapped under the object's name, as the
// API shows it, and bare; assumption: order.placed and product.created come
// bare.
//
// The error is a [*DataError]. It matches [ErrNoData] for an event from a list,
// [ErrOtherObject] if the event is not about a T, and [ErrBadData] if the data
// is not what the API documents, which an object without an id is not. Two
// kinds of event are spared that, as the API shows no data for them: clinic_key
// events need none at all, and treatment_plan.recommendation.updated may come
// with a plan that is empty; look at the raw data then.
// API section: "Event" (data), "Event types".
func As[T Payload](e Event) (Typed[T], error) {
	object := objectOf[T]()
	fail := func(reason error, field string) (Typed[T], error) {
		return Typed[T]{}, &DataError{Type: e.Type, ID: e.ID, Field: field, Reason: reason}
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
	switch invalid, err := jsondecode.Unmarshal(raw, &typed.Data); {
	case err != nil:
		return fail(ErrBadData, "")
	case len(invalid) > 0:
		return fail(ErrBadData, invalid[0].Field)
	}
	if !hasID(raw) && object != "clinic_key" && e.Type != TreatmentPlanRecommendationUpdated {
		return fail(ErrBadData, "id")
	}
	return typed, nil
}

// hasID distinguishes an object from another one that happened to decode: an empty
// order, say, because the order is somewhere else in the data.
func hasID(raw []byte) bool {
	var f fields
	s := scan(raw)
	s.eventObject(0, &f)
	return text(f.id) != ""
}

// UnmarshalJSON reads a bare event object with its data, as encoding a Typed
// event writes it. Without it the embedded Event would read the data as raw.
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

// objectOf returns the name that the platform's types and wrappers have for T.
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

// unwrap returns the object or null that data holds under the given name,
// or data itself where there is none.
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
