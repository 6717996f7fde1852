package webhook

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// Delivery is an event on its way into an [Inbox], and out of it. However it is
// printed or logged, its body is not seen.
type Delivery struct {
	Key Key

	// Type and ClinicID are the event's; ClinicID may be empty.
	Type     events.Type
	ClinicID string

	// CreatedAt is when the event happened, by the platform's clock; zero if
	// the platform did not say.
	CreatedAt time.Time

	// ReceivedAt is when the event arrived here.
	ReceivedAt time.Time

	// Body is what was received, byte for byte; [events.Parse] reads it. It may
	// hold patient data: store it sealed, and do not log it.
	Body []byte

	event *events.Event // what Body holds, while the request that brought it lasts
}

// Event reads the event in Body, and completes it from the Key where it came
// without an integration id. In [Inbox].Accept it costs nothing, because the handler
// has read the event already. Its Data is part of Body.
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

// OrderTime is what puts the events of one [OrderingKey] in order: when the event
// happened, or, where the platform did not say, when it arrived. An event that says
// that an object was created, as "patient.created" does, is a microsecond ahead of
// others: of events of one time it comes first. Between others there is no order.
func (d Delivery) OrderTime() time.Time {
	switch {
	case d.CreatedAt.IsZero():
		return d.ReceivedAt
	case d.CreatesObject():
		return d.CreatedAt.Add(-time.Microsecond)
	}
	return d.CreatedAt
}

// CreatesObject reports an event that says that its object was created, as
// "patient.created" does: it is the first of its object.
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
