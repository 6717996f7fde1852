package webhooks

import (
	"context"
	"fmt"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// WaitDelivered implements dispensarytest.Webhooks.
func (s *Sender) WaitDelivered(ctx context.Context, eventID string) error {
	for {
		s.mu.Lock()
		state, final := s.state(eventID)
		changed := s.changed
		s.mu.Unlock()
		switch {
		case final && state == "":
			return nil
		case final:
			return fmt.Errorf("dispensarytest: event %s was not delivered: %s", eventID, state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("dispensarytest: event %s is not delivered yet: %s: %w", eventID, state, context.Cause(ctx))
		}
	}
}

// state describes the state of an event. "" with final means delivered. The caller holds mu.
func (s *Sender) state(eventID string) (text string, final bool) {
	if skip, skipped := s.skips.Rows[eventID]; skipped {
		return skip.Reason, true
	}
	deliveries := table.Where(s.deliveries, func(d *Entry) bool { return d.EventID == eventID })
	if len(deliveries) == 0 {
		return "the event is unknown", true
	}
	final = true
	var parts []string
	for _, d := range deliveries {
		switch {
		case d.Delivered:
			continue
		case d.Lost:
			parts = append(parts, "the fault DeliveryLost prevented the delivery")
		case s.closed:
			parts = append(parts, d.String()+"; the platform was closed")
		case d.NextAttemptAt.IsZero():
			parts = append(parts, d.String())
		case s.Clock.Frozen() && d.NextAttemptAt.After(s.Clock.Now()):
			parts = append(parts, d.String()+"; the clock is frozen, see Clock.Advance")
		default:
			final = false
			parts = append(parts, d.String())
		}
	}
	return strings.Join(parts, "; "), final
}
