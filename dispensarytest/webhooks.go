package dispensarytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Webhooks are the integrator's webhook endpoint, and what the platform sent or did
// not send to it.
type Webhooks struct{ server *Server }

// Register registers the endpoint, in place of an earlier one, and
// subscribes it to event types: to all when none is named. Plain HTTP is
// accepted on loopback only. With a probe mode other than [ProbeOff] the
// endpoint has to answer an empty request with its challenge first.
func (w Webhooks) Register(address string, types ...string) error {
	if err := webhooks.CheckEndpoint(address, types); err != nil {
		return err
	}
	if w.server.behaviors.Get().Probe != behavior.ProbeNever {
		if a := w.server.sender.Post(address, nil, w.server.sender.ProbeSignature()); a.Err != "" {
			return fmt.Errorf("dispensarytest: the webhook endpoint was refused: %s", a.Err)
		}
	}
	defer w.server.changes.Notify()
	w.server.sender.Mu.Lock()
	defer w.server.sender.Mu.Unlock()
	w.server.sender.Endpoint = newEndpoint(address, types)
	return nil
}

// RegisterHandler registers a handler as the webhook endpoint: events
// reach it without a socket, signed and answered as any other. It is
// [Server.Host] and [Webhooks.Register] in one.
func (w Webhooks) RegisterHandler(handler http.Handler, types ...string) error {
	if err := w.server.Host(receiverOrigin, handler); err != nil {
		return err
	}
	return w.Register(receiverOrigin+"/webhooks", types...)
}

// Enable takes a disabled endpoint back into service, as the developer
// dashboard does. Deliveries that stopped meanwhile are not resumed, but see
// the behavior resume-after-enable.
func (w Webhooks) Enable() error {
	defer w.server.changes.Notify()
	w.server.sender.Mu.Lock()
	defer w.server.sender.Mu.Unlock()
	ep := w.server.sender.Endpoint
	if ep == nil {
		return errors.New("dispensarytest: Webhooks.Enable: no webhook endpoint is registered")
	}
	ep.Disabled, ep.Reason, ep.FailingSince = false, "", time.Time{}
	if w.server.behaviors.Get().Resume {
		w.server.sender.Resume()
	}
	return nil
}

// Endpoint returns the registered endpoint, and false when there is none.
func (w Webhooks) Endpoint() (model.Endpoint, bool) {
	w.server.sender.Mu.Lock()
	defer w.server.sender.Mu.Unlock()
	if w.server.sender.Endpoint == nil {
		return model.Endpoint{}, false
	}
	ep := *w.server.sender.Endpoint
	ep.Types = slices.Clone(ep.Types)
	return ep, true
}

// Deliveries returns the deliveries of the events that are kept, see
// [WithEventLimit], in the order of their events.
func (w Webhooks) Deliveries() []model.Delivery {
	return w.server.sender.All()
}

// Skipped returns the events that were not sent, sorted by event id.
func (w Webhooks) Skipped() []model.Skip {
	return w.server.sender.Skipped()
}

// WaitDelivered waits until an event was delivered for every integration it
// concerns. It returns an error that says what happened instead when the event
// was not sent at all, has run out of attempts, met a disabled endpoint, or
// waits for a retry on a frozen clock. Nothing is polled.
func (w Webhooks) WaitDelivered(ctx context.Context, eventID string) error {
	return w.server.sender.Wait(ctx, eventID)
}

// CheckDelivered fails the test unless an event was delivered for every integration
// it concerns; what is due is waited for, but not longer than the test runs. See
// [Webhooks.WaitDelivered].
func (w Webhooks) CheckDelivered(t testing.TB, events ...model.Event) {
	t.Helper()
	for _, e := range events {
		if err := w.WaitDelivered(t.Context(), e.ID); err != nil {
			t.Errorf("%v%s", err, w.otherDeliveries(e))
		}
	}
}

// otherDeliveries tells what became of the events around one.
func (w Webhooks) otherDeliveries(e model.Event) string {
	var lines []string
	for _, d := range slices.Backward(w.Deliveries()) {
		if d.EventID != e.ID && len(lines) < 3 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", d.EventType, d.EventID, d))
		}
	}
	text := fmt.Sprintf("\n  it is %s of %s", cmp.Or(e.Type, "an event without type, which an action that makes none returns,"), e.CreatedAt.Format(time.RFC3339))
	if len(lines) > 0 {
		text += "\n  the latest other deliveries:\n    " + strings.Join(lines, "\n    ")
	}
	return text
}

// newEndpoint returns an endpoint that is subscribed to types, or to all.
func newEndpoint(address string, types []string) *model.Endpoint {
	if len(types) == 0 {
		types = model.EventTypes()
	}
	return &model.Endpoint{URL: address, Types: slices.Clone(types)}
}
