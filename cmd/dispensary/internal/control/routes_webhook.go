package control

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// registration is a webhook endpoint with its event types.
type registration struct {
	URL   string
	Types []string
}

// outcome reports whether an event was delivered, with the reason if not.
type outcome struct {
	Delivered bool
	Reason    string
}

// defaultWait and maxWait limit how long a request waits for a delivery.
const (
	defaultWait = 5 * time.Second
	maxWait     = time.Minute
)

func webhookOperations() []Operation {
	deliveries := list("deliveries.list", "/deliveries", "deliveries", "Lists the stored deliveries with their attempts, in order of the events.", func(c *call) []model.Delivery { return c.fake.Webhooks.Deliveries() },
		"event_id", "event_type", "integration_id", "delivered", "stopped")
	wait := read("events.wait_delivered", "/events/{event_id}/delivery", "Waits until an event was delivered for every integration. Returns the reason if it was not.", waitDelivered)
	wait.Query = []Query{{Name: "timeout", Summary: "longest wait: default 5s, at most 1m"}}
	return []Operation{
		read("webhook.get", "/webhook", "Returns the registered endpoint, or null.", getWebhook),
		act("webhook.register", "PUT", "/webhook", "Registers the endpoint and replaces the previous one. The default is all event types.",
			func(c *call, in registration) (*model.Endpoint, error) {
				if err := c.fake.Webhooks.Register(in.URL, in.Types...); err != nil {
					return nil, err
				}
				return getWebhook(c)
			}),
		do("webhook.enable", "POST", "/webhook/enable", "Enables a disabled endpoint.",
			func(c *call) (*model.Endpoint, error) {
				if err := c.fake.Webhooks.Enable(); err != nil {
					return nil, &problem{status: 409, message: "no webhook endpoint is registered"}
				}
				return getWebhook(c)
			}),
		deliveries,
		list("skips.list", "/skips", "skips", "Lists events that were not sent, with the reason.", listSkips, "event_id"),
		wait,
	}
}

// skip is an event that was not sent.
type skip struct {
	EventID string
	Reason  string
}

func listSkips(c *call) (rows []skip) {
	for _, e := range c.fake.Events() {
		if e.NotSent != "" {
			rows = append(rows, skip{e.ID, e.NotSent})
		}
	}
	return rows
}

func getWebhook(c *call) (*model.Endpoint, error) {
	endpoint, registered := c.fake.Webhooks.Endpoint()
	if !registered {
		return nil, nil
	}
	return &endpoint, nil
}

func waitDelivered(c *call) (outcome, error) {
	limit, err := c.duration("timeout", defaultWait, maxWait)
	if err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	if err := c.fake.Webhooks.WaitDelivered(ctx, c.path("event_id")); err != nil {
		return outcome{Reason: plain(err)}, nil
	}
	return outcome{Delivered: true}, nil
}
