package events

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
)

// Event is something that happened on the platform. Printing and logging one
// shows its type and id only. Encoding it to JSON keeps everything, so that
// it can be stored: a JSON log that is given a struct or a list with events in
// it, instead of an event, shows their data.
// API section: "Event".
type Event struct {
	// ID identifies the event. A clinic with several integrations gets an
	// event with the same ID for each.
	ID string `json:"id"`

	// Type says what happened.
	Type Type `json:"type"`

	// CreatedAt is when it happened; zero if the platform wrote no time that
	// could be read.
	CreatedAt api.Timestamp `json:"created_at"`

	// ClinicID is the clinic the event is about; empty on product events.
	ClinicID string `json:"clinic_id,omitempty"`

	// IntegrationID is the integration the event was sent for. Webhooks carry
	// it where relevant; events read through the API may not.
	IntegrationID string `json:"integration_id,omitempty"`

	// Data is the object the event concerns, as it arrived; nil in event
	// lists. It may hold patient data: do not log it. See [As].
	Data json.RawMessage `json:"data,omitempty"`
}

// String returns type and id.
func (e Event) String() string { return string(e.Type) + " " + strconv.Quote(e.ID) }

// GoString returns type and id, so that %#v shows no data.
func (e Event) GoString() string { return "events.Event(" + e.String() + ")" }

// Format prints type and id for every verb.
func (e Event) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, e.GoString())
		return
	}
	_, _ = io.WriteString(f, e.String())
}

// LogValue returns type and id as a group.
func (e Event) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", string(e.Type)), slog.String("id", e.ID))
}
