package dispensaryotel

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// reasons are the words for errors that this module knows, the more telling ones
// first.
var reasons = []struct {
	err  error
	word string
}{
	{webhook.ErrPanic, "panic"},
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

// reason returns a word for an error, never its text, which may repeat data of an event:
// the code of [webhook.WithReason], the word of a known error, or the type of an unknown
// one. It is empty for nil.
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
	case errors.As(err, &call) && call.StatusCode != 0:
		return strconv.Itoa(call.StatusCode)
	case errors.Is(err, api.ErrReauthorize):
		return string(observe.FailureReauthorize)
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Sprintf("%T", err)
}
