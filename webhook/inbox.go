package webhook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// Inbox takes over verified events from a [Handler]. It is the whole contract
// between receiving and processing; how and where events are processed is the
// inbox's own matter, and another process may do it. What an inbox that also
// processes promises is said at [Engine].
//
// When Accept returns without an error, the event is safe: it survives whatever
// the inbox promises to survive, be it the end of the process or the loss of a
// disk. The handler acknowledges the event to the platform only then, and the
// platform never sends it again after that.
//
// Storing and finding out whether the event is already there are one step, by
// [Delivery.Key]: of any number of calls with one key, concurrent ones and ones
// on other machines included, one stores the event and all others report a
// duplicate, whether the event is still waiting, is being handled, was handled
// or was given up. Keys are remembered for at least as long as the platform may
// send the event again; 30 days, the time it keeps events, covers every way.
//
// An inbox stores events of any type, those it has never heard of included. It
// does not look into Body to decide whether to take it.
type Inbox interface {
	// Accept stores d durably, or reports that it is there already.
	//
	// It is called concurrently, and with a context of its own: the request's
	// values, not its cancellation, and a deadline that is shorter than the
	// platform's patience. Accept gives up when ctx ends; the handler does not
	// wait longer, and if the event was stored after all, the next attempt is a
	// duplicate.
	//
	// d.Body belongs to the inbox from the call on: the handler neither reads
	// nor changes it again. The inbox must not change it either as long as d
	// is shared.
	//
	// Any error, and a panic, means that the event is not, or not certainly,
	// stored; the platform is told to send it again. The error is logged: its
	// text must not repeat Body. One that every repetition will meet again matches
	// [ErrUnstorable].
	Accept(ctx context.Context, d Delivery) (Receipt, error)
}

// Receipt says what an [Inbox] did with an event.
type Receipt struct {
	// Duplicate reports that an event with this key was accepted before.
	Duplicate bool

	// Unchecked reports that the inbox keeps no record of keys, so that the event may
	// have been accepted before.
	Unchecked bool
}

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
}

// Event reads the event in Body, and completes it from the Key where it came
// without an integration id.
func (d Delivery) Event() (events.Event, error) {
	e, err := events.Parse(d.Body)
	if err != nil {
		return events.Event{}, err
	}
	if e.IntegrationID == "" {
		e.IntegrationID = d.Key.IntegrationID
	}
	return e, nil
}

// OrderTime is what puts the events of one [Subject] in order: when the event
// happened, or, where the platform did not say, when it arrived. An event that says
// that an object was created, as "patient.created" does, is a microsecond ahead of
// others: of events of one moment it comes first. Between others there is no order.
func (d Delivery) OrderTime() time.Time {
	switch {
	case d.CreatedAt.IsZero():
		return d.ReceivedAt
	case isCreated(d.Type):
		return d.CreatedAt.Add(-time.Microsecond)
	}
	return d.CreatedAt
}

// isCreated reports an event that is the first of its object.
func isCreated(kind events.Type) bool { return strings.HasSuffix(string(kind), ".created") }

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
