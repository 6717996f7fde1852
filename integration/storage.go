package integration

import (
	"context"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// openStore opens the store of Config.Store and creates its missing tables.
func (i *Integration) openStore(ctx context.Context, keys *seal.KeyRing) (tokenstore.Store, error) {
	i.limits = i.setup.RateLimitStore
	at, _ := parseAddress(i.config.Store, false) // Check has validated it
	if !at.durable() {
		return tokenstore.NewMemoryStore(), nil
	}
	o := StoreOptions{Keys: keys}
	if i.limits == nil && i.config.sharesLimits() {
		o.Limiters = len(i.config.Applications)
	}
	store, err := at.driver.OpenStore(ctx, at.name, o)
	if err != nil {
		return nil, err
	}
	i.store = store.Close
	if i.limits == nil {
		i.limits = store.Limits
	}
	return store.Store, nil
}

// openInbox opens the inbox of Config.Inbox and creates its missing tables.
func (i *Integration) openInbox(ctx context.Context, keys *seal.KeyRing) error {
	at, _ := parseAddress(i.config.Inbox, true) // Check has validated it
	work := i.setup.Work
	work.Handle = i.afterBegin(work.Handle)
	own := work.Observer.AttemptEnd
	work.Observer.AttemptEnd = func(ctx context.Context, attempt webhook.Attempt) {
		i.activity.AttemptEnd(ctx, attempt)
		if own != nil {
			own(ctx, attempt)
		}
	}
	if work.Logger == nil {
		work.Logger = i.setup.Logger
	}
	if !at.durable() {
		inbox, err := memoryinbox.New(memoryinbox.Config{Work: work})
		if err != nil {
			return err
		}
		i.Inbox, i.events = inbox, inbox
		return nil
	}
	inbox, err := at.driver.OpenInbox(ctx, at.name, InboxOptions{Keys: keys, Work: work})
	if err != nil {
		return err
	}
	i.Inbox, i.events, i.DB, i.inbox = inbox.Engine, inbox.Engine, inbox.DB, inbox.Close
	return nil
}

// afterBegin delays handle until Run. Events of a previous process are due as soon as the inbox
// opens, but handlers may use the Integration, which Open has not returned yet. If the wait exceeds
// the handler's timeout, the attempt does not count as failed.
func (i *Integration) afterBegin(handle webhook.HandlerFunc) webhook.HandlerFunc {
	return func(ctx context.Context, e events.Event) error {
		select {
		case <-i.running.began:
			return handle(ctx, e)
		case <-ctx.Done():
			return inboxkit.ErrNotStarted
		}
	}
}
