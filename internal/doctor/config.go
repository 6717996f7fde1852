package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Config is an integration in one environment. OAuth is required; the rows of what is
// left out are skipped.
type Config struct {
	// OAuth is the application. Its Transport calls the platform.
	OAuth oauth.Config

	// ClinicKey is sent with calls; empty sends none. The first request with a key
	// activates the integration.
	ClinicKey api.Secret

	// Store keeps the tokens, as the program uses it: with [tokenstore.Sealed] around it. A
	// store of your own that encrypts has a method Encrypts() bool.
	// StoreErr is why there is none: what opening it has returned. [fs.ErrNotExist] and an
	// [*api.SchemaError] are a missing table.
	Store    tokenstore.Store
	StoreErr error

	// User is the user whose token is checked. If it is empty, the first active user of the
	// store is.
	User string

	// Operations are the names of the operations that the integration calls, as in
	// "patients.create": the token needs their scopes.
	Operations []string

	// LeaseTTL is that of the program's [tokens.Config]; 0 means 30 seconds.
	LeaseTTL time.Duration

	// NoRefresh leaves the stored token as it is.
	NoRefresh bool

	// Webhook is the endpoint for webhooks.
	Webhook Webhook

	// Inbox holds the events of webhooks: usually an [engine.Engine], whose events are
	// opened, too, to see whether they can be. InboxErr is why there is none.
	Inbox    Inbox
	InboxErr error

	// ReconcileEvery is the interval at which the program reconciles. 0 means an
	// hour, as in package integration.
	ReconcileEvery time.Duration

	// SecretFiles are the paths of files with secrets: configuration, keys, SQLite databases.
	SecretFiles []string

	// Databases are the connections to the databases of Store and Inbox.
	Databases []Database

	// AnyOrder says that events may be handled in any order: [webhook.Work] has Order
	// and Stale, or handlers read what they need from the API.
	AnyOrder bool

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Webhook is the endpoint for webhooks, as the developer dashboard has it.
type Webhook struct {
	// URL is the address that is registered, as the platform reaches it; empty is none.
	URL string

	// Secrets and Challenge are those of [webhook.HandlerConfig].
	Secrets   []api.Secret
	Challenge api.Secret

	// HTTPClient reaches URL; nil means a client of its own. Redirects are not followed.
	HTTPClient *http.Client
}

// Inbox is what is asked of an inbox. Every [engine.Engine] is one.
type Inbox interface {
	Stats(ctx context.Context) (engine.Stats, error)
}

// check reports what no integration can be.
func (c Config) check() error {
	var problems []error
	problem := func(field, reason string) {
		problems = append(problems, &api.ArgumentError{Field: "doctor.Config." + field, Reason: reason})
	}
	if err := c.OAuth.Site.Environment.Validate(); err != nil {
		problem("OAuth.Site.Environment", "is none")
	}
	for i, name := range c.Operations {
		if operationOf(name) == nil {
			problem(fmt.Sprintf("Operations[%d]", i), "is no operation: names are as in patients.create")
		}
	}
	if c.User != "" && c.Store == nil && c.StoreErr == nil {
		problem("User", "is set, and Store is nil")
	}
	if c.Webhook.URL != "" && len(c.Webhook.Secrets) == 0 {
		problem("Webhook.Secrets", "is empty: without a secret nothing can be signed")
	}
	if c.Webhook.URL != "" && c.Webhook.Challenge.IsZero() {
		problem("Webhook.Challenge", "is empty")
	}
	for field, d := range map[string]time.Duration{"ReconcileEvery": c.ReconcileEvery, "LeaseTTL": c.LeaseTTL} {
		if d < 0 {
			problem(field, "is negative")
		}
	}
	return errors.Join(problems...)
}

// operationOf returns an operation by name, nil if there is none.
func operationOf(name string) *operation.Operation {
	all := operation.All()
	if i := slices.IndexFunc(all, func(o *operation.Operation) bool { return o.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Database is the connection of a setting to a database.
type Database struct {
	// Setting is the name of the setting with the address, such as DISPENSARY_STORE.
	Setting string

	// Private reports whether the network cannot read the connection: the database is on
	// this machine, or connections without TLS fail.
	Private bool
}
