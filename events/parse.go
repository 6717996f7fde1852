package events

import (
	"bytes"
	"fmt"

	"github.com/dispensary-go/dispensary/internal/jsondecode"
)

// scanner finds the few members of an event in a body. It is several times faster than
// decoding the body.
type scanner struct{ jsondecode.Scanner }

func scan(data []byte) *scanner { return &scanner{jsondecode.Scanner{Data: data}} }

// malformed returns an error with the position of the scanner.
func (s *scanner) malformed() error { return fmt.Errorf("%w at byte %d", ErrMalformed, s.Pos) }

// Parse reads an event from a webhook body. It accepts three envelopes:
//
//	{"event": {…}}                      documented by the API
//	{"event_payload": {"event": {…}}}   used in the delivery log; assumption: webhooks may use it too
//	{…}                                 the event alone; assumption, as above
//
// If a body matches several envelopes, Parse returns the first event with an ID and a type. It
// requires no other field and accepts unknown fields and types.
//
// The error matches [ErrMalformed] or [ErrNoEvent]. The event's Data shares the memory of
// body.
// API section: "Webhooks" 2, "Webhook delivery" (event_payload).
func Parse(body []byte) (Event, error) {
	var e envelope
	s := scan(body)
	switch c := s.Next(); {
	case c != '{':
		if s.Value(0) && s.End() {
			return Event{}, ErrNoEvent
		}
		return Event{}, s.malformed()
	case !s.Members(1, func(key []byte) bool { return s.envelopeMember(key, &e) }), !s.End():
		return Event{}, s.malformed()
	}
	reason := ErrNoEvent
	for _, f := range [...]*fields{&e.event, &e.payload, &e.bare} {
		switch event := f.event(); {
		case event.ID != "" && event.Type != "":
			return event, nil
		case reason != ErrNoEvent: // from an earlier envelope
		case event.ID != "":
			reason = errNoType
		case event.Type != "":
			reason = errNoID
		}
	}
	return Event{}, reason
}

// UnmarshalJSON reads a bare event object. A missing ID, type or time, or one of an unexpected
// kind, stays empty, so that a change to one event never makes a whole list unreadable.
func (e *Event) UnmarshalJSON(data []byte) error {
	var f fields
	s := scan(data)
	if s.Next() != '{' {
		if bytes.Equal(data, []byte("null")) {
			return nil
		}
		return ErrNoEvent
	}
	if !s.Members(1, func(key []byte) bool { return s.field(1, key, &f) }) || !s.End() {
		return s.malformed()
	}
	*e = f.event()
	e.Data = bytes.Clone(e.Data)
	return nil
}

// envelope contains the fields of an event for each possible position.
type envelope struct{ event, payload, bare fields }

// envelopeMember reads one member of the outermost object.
func (s *scanner) envelopeMember(key []byte, e *envelope) bool {
	switch string(jsondecode.Unquote(key)) {
	case "event":
		return s.eventObject(1, &e.event)
	case "event_payload":
		e.payload = fields{}
		if s.Next() != '{' {
			return s.Value(1)
		}
		return s.Members(2, func(key []byte) bool {
			if string(jsondecode.Unquote(key)) == "event" {
				return s.eventObject(2, &e.payload)
			}
			return s.Value(2)
		})
	}
	return s.field(1, key, &e.bare)
}

// eventObject reads an event object. A value of another kind leaves f empty.
func (s *scanner) eventObject(depth int, f *fields) bool {
	*f = fields{}
	if s.Next() != '{' {
		return s.Value(depth)
	}
	return s.Members(depth+1, func(key []byte) bool { return s.field(depth+1, key, f) })
}

// fields are the members of an event object, as JSON text.
type fields struct{ id, kind, createdAt, clinicID, integrationID, data []byte }

// field moves past the value at pos and stores it if key is a member of an event. The last of
// several members with the same name wins, as in encoding/json.
func (s *scanner) field(depth int, key []byte, f *fields) bool {
	s.Next()
	start := s.Pos
	if !s.Value(depth) {
		return false
	}
	raw := s.Data[start:s.Pos]
	switch string(jsondecode.Unquote(key)) {
	case "id":
		f.id = raw
	case "type":
		f.kind = raw
	case "created_at":
		f.createdAt = raw
	case "clinic_id":
		f.clinicID = raw
	case "integration_id":
		f.integrationID = raw
	case "data":
		f.data = raw
	}
	return true
}

// event decodes the fields.
func (f *fields) event() Event {
	e := Event{
		ID:            text(f.id),
		Type:          Type(text(f.kind)),
		ClinicID:      text(f.clinicID),
		IntegrationID: text(f.integrationID),
	}
	if len(f.createdAt) > 0 {
		_ = e.CreatedAt.UnmarshalJSON(f.createdAt) // an unreadable time stays zero
	}
	if string(f.data) != "null" {
		e.Data = f.data
	}
	return e
}

// text returns the string in the JSON text raw. A number yields its characters, because IDs
// are opaque. Any other kind yields "".
func text(raw []byte) string {
	switch {
	case len(raw) == 0:
		return ""
	case raw[0] == '"':
		return string(jsondecode.Unquote(raw))
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return string(raw)
	}
	return ""
}
