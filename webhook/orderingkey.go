package webhook

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/dispensary-go/dispensary/events"
)

// OrderingKey names what events are kept in order by: engines handle events of one
// key one after the other. It is "patient-" and 32 hex digits, for example. The
// digits are a digest of environment, integration, kind and id, so that a key can
// stand in a job, a queue or a log: it tells events apart and identifies nobody. The
// empty key is none.
type OrderingKey string

// NewOrderingKey returns the key of the given kind and id in the environment and
// for the integration of d; it is empty if id is. Two integrations of a clinic
// have different keys, because each is sent all events: what one of them has
// handled says nothing about the other.
func NewOrderingKey(d Delivery, kind, id string) OrderingKey {
	if id == "" {
		return ""
	}
	digest := sha256.New()
	for _, part := range []string{d.Key.Environment.String(), d.Key.IntegrationID, kind, id} {
		var length [8]byte // so that no part can end in the next
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		digest.Write(length[:])
		digest.Write([]byte(part))
	}
	return OrderingKey(kind + "-" + hex.EncodeToString(digest.Sum(nil)[:16]))
}

// ByObject keeps the events of each object in order: those of a patient, of a
// treatment plan, of an order, of a product. Events of clinic keys go by clinic,
// and so do those whose object has no id.
func ByObject(d Delivery, e events.Event) OrderingKey {
	kind := kindOf(e)
	if id := readObject(e, kind).ID; id != "" && kind != "clinic_key" {
		return NewOrderingKey(d, kind, string(id))
	}
	return byClinicID(d, e)
}

// ByPatient keeps all events of each patient in order: those of the patient, and
// those of the patient's treatment plans and orders. All others, and those that
// name no patient, go by object.
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

// ByClinic keeps all events of each clinic in order. That of products, which
// belong to no clinic, go by object. One event that cannot be handled holds up
// the whole clinic until it is a dead letter.
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

// object holds the ids that an ordering key is made of.
type object struct {
	ID        opaque `json:"id"`
	PatientID opaque `json:"patient_id"`
	Patient   struct {
		ID opaque `json:"id"`
	} `json:"patient"`
}

// opaque is an id: a string, or a number by its digits. It reads anything, for
// an id of another form is no reason to refuse an event.
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

// readObject reads ids from the event's data, wrapped under the object's name or
// bare. What cannot be read stays empty.
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
	_ = json.Unmarshal(raw, &o) // a patient that is no object leaves the rest readable
	return o
}
