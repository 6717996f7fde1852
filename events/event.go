package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Event is something that happened on the platform. It prints and logs only its type and ID.
// Its JSON contains everything, so that it can be stored. A JSON log that receives a struct or
// a list of events instead of an event therefore shows their data.
// API section: "Event".
type Event struct {
	// ID is the ID of the event. A clinic with several integrations receives an event with the
	// same ID for each.
	ID string `json:"id"`

	// Type is the kind of event.
	Type Type `json:"type"`

	// CreatedAt is the time of the event, or zero if the platform sent no readable time.
	CreatedAt api.Timestamp `json:"created_at"`

	// ClinicID is the clinic of the event. It is empty on product events.
	ClinicID string `json:"clinic_id,omitempty"`

	// IntegrationID is the integration for which the event was sent. Webhooks contain it if it
	// is relevant. Events read through the API may lack it.
	IntegrationID string `json:"integration_id,omitempty"`

	// Data is the object that the event concerns, as it arrived. It is nil in event lists. It
	// may contain patient data, so do not log it. See [As].
	Data json.RawMessage `json:"data,omitempty"`
}

// String returns the type and the ID.
func (e Event) String() string { return string(e.Type) + " " + strconv.Quote(e.ID) }

// GoString returns the type and the ID, so that %#v shows no data.
func (e Event) GoString() string { return "events.Event(" + e.String() + ")" }

// Format prints the type and the ID for every verb.
func (e Event) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, e.GoString())
		return
	}
	_, _ = io.WriteString(f, e.String())
}

// LogValue returns the type and the ID as a group.
func (e Event) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", string(e.Type)), slog.String("id", e.ID))
}

// Type is the kind of an event as object and verb: "order.placed". Other types than the listed
// ones are valid, because the platform may add some at any time.
// API section: "Event types".
type Type string

// The event types of the platform. API section: "Event types".
const (
	// TypeClinicKeyActivated: the first request with a valid clinic key was made.
	TypeClinicKeyActivated Type = "clinic_key.activated"

	// TypeClinicKeyRevoked: a clinic revoked the integration's access.
	TypeClinicKeyRevoked Type = "clinic_key.revoked"

	// TypeOrderPlaced: an order was placed.
	TypeOrderPlaced Type = "order.placed"

	// TypePatientCreated: a patient was created.
	TypePatientCreated Type = "patient.created"

	// TypePatientUpdated: a patient was updated.
	TypePatientUpdated Type = "patient.updated"

	// TypeProductCreated: a product was created.
	TypeProductCreated Type = "product.created"

	// TypeProductDescriptionUpdated: a product's description was updated.
	TypeProductDescriptionUpdated Type = "product.description.updated"

	// TypeProductUpdated: a product or one of its variants was updated.
	TypeProductUpdated Type = "product.updated"

	// TypeTreatmentPlanCreated: a treatment plan was created. Assumption: the platform sends it
	// on activation, not when a draft is saved.
	TypeTreatmentPlanCreated Type = "treatment_plan.created"

	// TypeTreatmentPlanRecommendationUpdated: a recommendation of a treatment plan
	// was updated.
	TypeTreatmentPlanRecommendationUpdated Type = "treatment_plan.recommendation.updated"

	// TypeTreatmentPlanUpdated: a treatment plan was updated. Assumption: a cancellation also
	// sends this type.
	TypeTreatmentPlanUpdated Type = "treatment_plan.updated"
)

// object returns the part of the type before the first period: the kind of object that the
// event is about, and the key around its data.
func (t Type) object() string {
	object, _, _ := strings.Cut(string(t), ".")
	return object
}

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
	// The API shows the object for treatment_plan.created and patient.updated. Assumption: the
	// other types contain the whole object too. A handler that must be sure reads it by its ID.
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
		if (first == '{' || first == 'n') && string(jsondecode.Unquote(key)) == name {
			inner = data[start:s.Pos]
		}
		return true
	})
	return inner
}

// Errors of [Parse] and [As]. Their texts contain no part of the body.
var (
	// ErrMalformed: the body is not JSON. The text of the matching error contains the position
	// in bytes.
	ErrMalformed = errors.New("events: body is not valid JSON")

	// ErrNoEvent: the body is JSON, but contains no known envelope, or the event has no ID or
	// no type. The matching error names the missing member.
	ErrNoEvent = errors.New("events: body contains no event with an id and a type")

	// ErrNoData: the event has no data. Event lists leave it out. Read the event by its ID.
	ErrNoData = errors.New("events: event has no data")

	// ErrOtherObject: the event is about another kind of object than the requested one, for
	// example a patient instead of an order.
	ErrOtherObject = errors.New("events: event is about another kind of object")

	// ErrBadData: the event's data is not an object, or lacks an ID that the API documents. The
	// event and its raw data stay readable.
	ErrBadData = errors.New("events: data cannot be decoded")
)

// Errors of an event without an ID or a type. A number counts as an ID. Any other value that
// is not a string counts as missing.
var (
	errNoID   = fmt.Errorf("%w: the id is missing or empty", ErrNoEvent)
	errNoType = fmt.Errorf("%w: the type is missing or empty", ErrNoEvent)
)

// DataError reports that the data of an event cannot be decoded into the requested object. It
// names the event and, if known, the field. It contains no data: errors of encoding/json can
// repeat values, so it does not keep them.
type DataError struct {
	// Type and ID identify the event.
	Type Type
	ID   string

	// Field is the JSON path of the field that cannot be decoded, or empty if unknown.
	Field string

	// Err is [ErrNoData], [ErrOtherObject] or [ErrBadData].
	Err error
}

// Error returns the type, the ID, the reason and the field.
func (e *DataError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("%v: %s %q", e.Err, e.Type, e.ID)
	if e.Field != "" {
		text += ", field " + e.Field
	}
	return text
}

// Unwrap returns Err.
func (e *DataError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
