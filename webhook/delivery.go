package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// Inbox stores verified events of a [Handler]. It decides how and where they are handled. For the
// guarantees of an inbox that also handles its events, see package engine.
//
// The handler acknowledges an event once Accept has returned without an error, and the platform
// never sends it again. Before that, Accept must store the event so that it survives all failures
// in the guarantees of the inbox, such as a crash of the process.
//
// Accept recognizes duplicates by [Delivery.Key], in the same step that stores the event. Of all
// calls with one key, even concurrent ones in other processes, one stores the event and the others
// report a duplicate, whether the event is waiting, running, handled or dead. An inbox keeps keys
// for as long as the platform may send an event again. 30 days are enough, because the platform
// keeps events for that time.
//
// An inbox stores events of any type, whatever their body.
type Inbox interface {
	// Accept stores d durably, or reports a duplicate.
	//
	// It is called concurrently. ctx has the values of the request, but not its cancellation,
	// and a deadline within the timeout of the platform. The handler does not wait longer. If
	// Accept stores the event anyway, the next delivery is a duplicate.
	//
	// The inbox owns d.Body. It must not change the body while d is shared.
	//
	// After an error or a panic, the platform sends the event again. The error is logged, so
	// its text must not repeat the body. Return an error that matches [ErrUnstorable] if no
	// delivery of the event can succeed.
	Accept(ctx context.Context, d Delivery) (Receipt, error)
}

// Receipt is the result of [Inbox].Accept.
type Receipt struct {
	// Duplicate reports whether an event with this key was accepted before.
	Duplicate bool

	// Unchecked reports whether the inbox keeps no keys. If true, the event may be a duplicate.
	Unchecked bool
}

// Delivery is an event that an [Inbox] accepts and returns to a worker. No printed or logged form
// shows its body.
type Delivery struct {
	Key Key

	// Type and ClinicID are the type and the clinic of the event. ClinicID may be empty.
	Type     events.Type
	ClinicID string

	// CreatedAt is the time of the event by the platform's clock. It is zero if unknown.
	CreatedAt time.Time

	// ReceivedAt is the time of the arrival.
	ReceivedAt time.Time

	// Body is the received body: see [events.Parse]. It may contain patient data: store it
	// encrypted, and do not log it.
	Body []byte

	event *events.Event // parsed from Body, during the request
}

// Event parses Body and sets a missing integration ID from Key. In [Inbox].Accept it returns the
// event that the handler has parsed, so it costs nothing. Data of the event shares memory with
// Body.
func (d Delivery) Event() (events.Event, error) {
	e := events.Event{}
	if d.event != nil {
		e = *d.event
	} else if parsed, err := events.Parse(d.Body); err != nil {
		return e, err
	} else {
		e = parsed
	}
	if e.IntegrationID == "" {
		e.IntegrationID = d.Key.IntegrationID
	}
	return e, nil
}

// OrderTime returns the time that orders the events of one [OrderingKey]: CreatedAt, or ReceivedAt
// if CreatedAt is unknown. For an event such as "patient.created" it is one microsecond earlier,
// so that this event is first among events with the same time. Those have no other order.
func (d Delivery) OrderTime() time.Time {
	switch {
	case d.CreatedAt.IsZero():
		return d.ReceivedAt
	case d.CreatesObject():
		return d.CreatedAt.Add(-time.Microsecond)
	}
	return d.CreatedAt
}

// CreatesObject reports whether the event is the first of its object, such as "patient.created".
func (d Delivery) CreatesObject() bool { return strings.HasSuffix(string(d.Type), ".created") }

// String returns type and key.
func (d Delivery) String() string { return string(d.Type) + " " + d.Key.String() }

// GoString returns type and key, so that %#v shows no body.
func (d Delivery) GoString() string { return "webhook.Delivery(" + d.String() + ")" }

// Format prints type and key for every verb.
func (d Delivery) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, d.GoString())
		return
	}
	_, _ = io.WriteString(f, d.String())
}

// LogValue returns type and key as a group.
func (d Delivery) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("type", string(d.Type)),
		slog.String("id", d.Key.EventID),
		slog.String("integration_id", d.Key.IntegrationID),
		slog.String("environment", d.Key.Environment.String()),
	)
}

// Key identifies an event. An [Inbox] recognizes duplicates by it. It contains the integration,
// because the platform sends each event of a clinic once per integration, with the same event ID.
// It contains the environment, because each environment has its own IDs. Keys are comparable.
// API section: "Webhooks" 6.
type Key struct {
	Environment api.Environment
	EventID     string

	// IntegrationID is empty if the event of the platform contains no integration.
	IntegrationID string
}

// String returns the key as text, such as "us/sandbox/evt_1/in_1". Each part is escaped as in a
// URL, so different keys have different texts. [Key.UnmarshalText] parses it.
func (k Key) String() string {
	region, stage, _ := strings.Cut(string(k.Environment), "/")
	parts := []string{region, stage, k.EventID, k.IntegrationID}
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

// MarshalText returns the text of [Key.String]. It never fails.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the text of [Key.String]. It rejects any other text, a key without an event
// ID, and an unknown environment.
func (k *Key) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if len(parts) != 4 {
		return errBadKey
	}
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return errBadKey
		}
		parts[i] = plain
	}
	key := Key{
		Environment:   api.Environment(parts[0] + "/" + parts[1]),
		EventID:       parts[2],
		IntegrationID: parts[3],
	}
	if key.EventID == "" || key.Environment.Validate() != nil {
		return errBadKey
	}
	*k = key
	return nil
}

// errBadKey does not quote the text, because it may contain patient data or a secret.
var errBadKey = errors.New("webhook: text is not a key: want region/stage/event/integration")

// OrderingKey is the key of events that engines handle in order, one at a time. It is a text such
// as "patient-" and 32 hex digits. The digits are a digest of environment, integration, kind and
// ID. You can store and log a key, because it identifies no patient. An event with an empty key
// has no order.
type OrderingKey string

// NewOrderingKey returns the key of a kind and an ID, in the environment and for the integration
// of d. It is empty if id is empty. The integrations of a clinic have different keys, because the
// platform sends all events to each integration.
func NewOrderingKey(d Delivery, kind, id string) OrderingKey {
	if id == "" {
		return ""
	}
	digest := sha256.New()
	for _, part := range []string{d.Key.Environment.String(), d.Key.IntegrationID, kind, id} {
		var length [8]byte // so that different parts never give the same bytes
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		digest.Write(length[:])
		digest.Write([]byte(part))
	}
	return OrderingKey(kind + "-" + hex.EncodeToString(digest.Sum(nil)[:16]))
}

// ByObject orders the events of each patient, treatment plan, order and product. Events of clinic
// keys, and of objects without an ID, are ordered by clinic.
func ByObject(d Delivery, e events.Event) OrderingKey {
	kind := kindOf(e)
	if id := readObject(e, kind).ID; id != "" && kind != "clinic_key" {
		return NewOrderingKey(d, kind, string(id))
	}
	return byClinicID(d, e)
}

// ByPatient orders the events of each patient together with the events of the patient's treatment
// plans and orders. Events without a patient are ordered by object.
func ByPatient(d Delivery, e events.Event) OrderingKey {
	kind := kindOf(e)
	o := readObject(e, kind)
	switch {
	case kind == "patient":
		return ByObject(d, e)
	case o.PatientID != "":
		return NewOrderingKey(d, "patient", string(o.PatientID))
	case o.Patient.ID != "":
		return NewOrderingKey(d, "patient", string(o.Patient.ID))
	}
	return ByObject(d, e)
}

// ByClinic orders the events of each clinic. Products belong to no clinic, so their events are
// ordered by object. A failing event blocks its clinic until it is handled or a dead letter.
func ByClinic(d Delivery, e events.Event) OrderingKey {
	if s := byClinicID(d, e); s != "" {
		return s
	}
	return ByObject(d, e)
}

func byClinicID(d Delivery, e events.Event) OrderingKey {
	return NewOrderingKey(d, "clinic", e.ClinicID)
}

// kindOf returns the part of the type before the first period.
func kindOf(e events.Event) string {
	kind, _, _ := strings.Cut(string(e.Type), ".")
	return kind
}

// object contains the IDs for an ordering key.
type object struct {
	ID        opaque `json:"id"`
	PatientID opaque `json:"patient_id"`
	Patient   struct {
		ID opaque `json:"id"`
	} `json:"patient"`
}

// opaque is an ID: a string, or the digits of a number. It ignores other forms, because they are
// no reason to reject an event.
type opaque string

func (o *opaque) UnmarshalJSON(data []byte) error {
	var text string
	var number json.Number
	switch {
	case json.Unmarshal(data, &text) == nil:
		*o = opaque(text)
	case json.Unmarshal(data, &number) == nil:
		*o = opaque(number)
	}
	return nil
}

// readObject reads IDs from the event's data, bare or wrapped under the object's name. Unreadable
// IDs stay empty.
func readObject(e events.Event, kind string) object {
	var o object
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Data, &members) != nil {
		return o
	}
	raw := e.Data
	if inner, ok := members[kind]; ok && len(inner) > 0 && inner[0] == '{' {
		raw = inner
	}
	_ = json.Unmarshal(raw, &o) // the other IDs are valid even if patient is not an object
	return o
}
