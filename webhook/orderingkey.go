package webhook

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/dispensary-go/dispensary/events"
)

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
