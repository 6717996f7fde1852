package integration

import (
	"slices"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Telemetry observes all parts of an integration. The Telemetry of package dispensaryotel
// implements it with OpenTelemetry. It is safe for concurrent use.
type Telemetry interface {
	// Calls returns the observer of the API calls of all clients and of token requests.
	Calls() observe.Observer

	// Tokens returns the observer of stored tokens.
	Tokens() tokens.Observer

	// Work, Webhook and Reconcile return their argument with observation added. They call
	// its own observer as well.
	Work(webhook.Work) webhook.Work
	Webhook(webhook.HandlerConfig) webhook.HandlerConfig
	Reconcile(reconcile.Config) reconcile.Config

	// WatchInbox observes the number and age of the events in an inbox until stop is called.
	WatchInbox(name string, inbox engine.Engine) (stop func() error, err error)
}

// observed returns s with its Telemetry added to the parts that Open does not complete first.
func (s Setup) observed() Setup {
	t := s.Telemetry
	if t == nil {
		return s
	}
	s.Work = t.Work(s.Work)
	s.OAuth.Observers = append(slices.Clip(s.OAuth.Observers), t.Calls())
	s.Accounts.Tokens.Observers = append(slices.Clip(s.Accounts.Tokens.Observers), t.Tokens())
	own := s.Accounts.Options
	s.Accounts.Options = func(environment dispensary.Environment) (options []dispensary.Option) {
		if own != nil {
			options = slices.Clip(own(environment))
		}
		return append(options, dispensary.WithObserver(t.Calls()))
	}
	return s
}

// observedWebhooks returns c with the Telemetry added, after the alarms and the observer of c.
func (i *Integration) observedWebhooks(c webhook.HandlerConfig, alarms ...*webhook.Alarm) webhook.HandlerConfig {
	c.Observer = observedBy(c.Observer, alarms...)
	if i.setup.Telemetry != nil {
		c = i.setup.Telemetry.Webhook(c)
	}
	return c
}

// watchInbox observes the inbox under the names of all applications.
func (i *Integration) watchInbox() error {
	if i.setup.Telemetry == nil {
		return nil
	}
	var names []string
	for _, application := range i.config.Applications {
		names = append(names, application.Name())
	}
	stop, err := i.setup.Telemetry.WatchInbox(strings.Join(names, " "), i.Inbox)
	if err == nil {
		i.unwatch = sync.OnceValue(stop)
	}
	return err
}
