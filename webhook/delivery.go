package webhook

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
)

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
