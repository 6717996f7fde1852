package integration

import (
	"context"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary"
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
	work.Start = i.running.began // handlers may use the Integration, which Open has not returned yet
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

// memory is the scheme of stores and inboxes in memory.
const memory = "memory"

// address is the parsed URL of a store or an inbox.
type address struct {
	scheme string
	name   string // as returned by Driver.Parse
	driver Driver // zero in memory
}

// durable reports whether the data survives the process.
func (a address) durable() bool { return a.scheme != memory }

// isFile reports whether the name is the path of a file.
func (a address) isFile() bool { return a.driver.Private == nil }

// parseAddress parses the URL of a store, or of an inbox. problem is "" if the URL is valid. It never
// repeats the URL, because that may contain a password.
func parseAddress(text dispensary.Secret, inbox bool) (at address, problem string) {
	own := []string{"postgres", "mysql", "sqlite", memory}
	if inbox {
		own = []string{"postgres", "sqlite", memory}
	}
	choice := "begin with one of " + strings.Join(own, ":, ") + ":"
	scheme, rest, _ := strings.Cut(text.Reveal(), ":")
	if scheme == "postgresql" {
		scheme = "postgres"
	}
	driver, registered := drivers[scheme]
	switch {
	case text.IsZero():
		return at, "is empty: it must " + choice
	case scheme == memory && rest != "":
		return at, "must be memory: without a name"
	case scheme == memory:
		return address{scheme: memory}, ""
	case !registered && slices.Contains(own, scheme):
		return at, `needs a driver in the program: import _ "github.com/dispensary-go/dispensary/integration/` + scheme + `"`
	case !registered || inbox && driver.OpenInbox == nil:
		return at, "must " + choice
	}
	name, err := driver.Parse(text.Reveal())
	if err != nil {
		return at, err.Error()
	}
	return address{scheme, name, driver}, ""
}
