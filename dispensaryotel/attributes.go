package dispensaryotel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/webhook"
)

// environment returns the attributes of an environment.
func environment(e api.Environment) []signal.Attribute {
	region, stage, _ := strings.Cut(string(e), "/")
	return []signal.Attribute{signal.Region.Of(region), signal.Stage.Of(stage)}
}

// other replaces every value that this package does not know.
const other = "_OTHER"

// operation returns the attributes of an operation.
func operation(e api.Environment, name string) []signal.Attribute {
	return append(environment(e), signal.Operation.Of(name))
}

// response returns the attributes of a response or a failure.
func response(status int, why string) (attributes []signal.Attribute) {
	if status != 0 {
		attributes = append(attributes, signal.Status.Of(status))
	}
	return append(attributes, failed(why)...)
}

// failed returns the attribute of a failure, or none if why is empty.
func failed(why string) []signal.Attribute {
	if why == "" {
		return nil
	}
	return []signal.Attribute{signal.Error.Of(why)}
}

// request returns the attributes that the conventions require of an HTTP request, except the
// URL.
func request(c observe.Call) []signal.Attribute {
	host, port := c.Host, ""
	if h, p, err := net.SplitHostPort(c.Host); err == nil {
		host, port = h, p
	}
	attributes := []signal.Attribute{signal.Method.Of(c.Method), signal.Route.Of(c.Route), signal.ServerAddress.Of(host)}
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, signal.ServerPort.Of(n))
	}
	return attributes
}

// event returns the attributes of an event, under the conventions' names for messages.
func event(d webhook.Delivery, operation, kind string) []signal.Attribute {
	return append(environment(d.Key.Environment),
		signal.System.Of("dispensary"), signal.Destination.Of("inbox"), signal.EventType.Of(typeOf(d.Type)),
		signal.OperationName.Of(operation), signal.OperationType.Of(kind))
}

// known contains the event types that signals name.
var known = []events.Type{
	events.TypeClinicKeyActivated, events.TypeClinicKeyRevoked, events.TypeOrderPlaced, events.TypePatientCreated, events.TypePatientUpdated,
	events.TypeProductCreated, events.TypeProductDescriptionUpdated, events.TypeProductUpdated, events.TypeTreatmentPlanCreated,
	events.TypeTreatmentPlanRecommendationUpdated, events.TypeTreatmentPlanUpdated,
}

// typeOf returns the name of a known event type. An unknown type could contain any text, so
// only the log contains it.
func typeOf(kind events.Type) string {
	if slices.Contains(known, kind) {
		return string(kind)
	}
	return other
}

// webhookRequest returns the attributes of a webhook request.
func webhookRequest(o webhook.Observation) []signal.Attribute {
	attributes := []signal.Attribute{signal.WebhookOutcome.Of(string(o.Outcome)), signal.Status.Of(o.Status)}
	if o.Key.EventID != "" {
		attributes = append(append(attributes, signal.EventType.Of(typeOf(o.Type))), environment(o.Key.Environment)...)
	}
	return append(attributes, failed(reason(o.Err))...)
}

// reasons contains the words for errors of this module, more specific ones first.
var reasons = []struct {
	err  error
	word string
}{
	{safecall.ErrPanic, "panic"},
	{webhook.ErrUnknownPath, "unknown_path"},
	{webhook.ErrMethod, "method"},
	{webhook.ErrUnknownTenant, "unknown_tenant"},
	{webhook.ErrTenant, "tenant"},
	{webhook.ErrSignatureMissing, "signature_missing"},
	{webhook.ErrSignatureMalformed, "signature_malformed"},
	{webhook.ErrBodyConsumed, "body_consumed"},
	{webhook.ErrSignatureMismatch, "signature_mismatch"},
	{webhook.ErrTimestampTooOld, "timestamp_too_old"},
	{webhook.ErrTimestampTooNew, "timestamp_too_new"},
	{webhook.ErrBodyTooLarge, "body_too_large"},
	{webhook.ErrBodyUnreadable, "body_unreadable"},
	{events.ErrMalformed, "malformed"},
	{events.ErrNoEvent, "no_event"},
	{webhook.ErrInboxFull, "inbox_full"},
	{webhook.ErrInboxClosed, "inbox_closed"},
	{webhook.ErrInboxTimeout, "inbox_timeout"},
	{webhook.ErrInbox, "inbox"},
	{webhook.ErrAbandoned, "abandoned"},
	{webhook.ErrBodyLost, "body_lost"},
	{events.ErrBadData, "bad_data"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// reason returns a word for an error: the code of [webhook.WithReason], the word of a known
// error, or the type of an unknown one. It never returns the error's text, which may repeat
// the data of an event. It is empty for nil.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if code := webhook.ReasonCode(err); code != "" {
		return code
	}
	for _, known := range reasons {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	var call *api.Error
	switch {
	case errors.As(err, &call) && call != nil && call.StatusCode != 0:
		return strconv.Itoa(call.StatusCode)
	case errors.Is(err, api.ErrReauthorize):
		return string(observe.FailureReauthorize)
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Sprintf("%T", err)
}
