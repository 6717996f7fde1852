package events

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
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
