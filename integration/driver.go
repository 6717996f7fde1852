package integration

import (
	"context"
	"database/sql"
	"net"
	"strings"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Driver opens the databases of one kind. The packages integration/postgres, integration/mysql and
// integration/sqlite register one each. Parse and OpenStore are required.
type Driver struct {
	// Parse returns the name of the database in a URL. The other functions receive the name. The
	// error says what is wrong, such as "must name a file", and does not contain the URL.
	Parse func(url string) (name string, err error)

	// Private reports whether the network cannot read connections to the database. Nil means that
	// the name is the path of a file.
	Private func(name string) bool

	// Shared reports whether several processes can use an inbox at the same time.
	Shared bool

	// OpenStore opens a token store.
	OpenStore func(ctx context.Context, name string, o StoreOptions) (*Store, error)

	// OpenInbox opens an inbox and creates its missing tables. Nil means that the database has no
	// inboxes.
	OpenInbox func(ctx context.Context, name string, o InboxOptions) (*Inbox, error)

	// OpenReader opens an inbox that neither accepts nor handles events, and creates nothing. It is
	// required with OpenInbox.
	OpenReader func(ctx context.Context, name string, keys *seal.KeyRing) (*Reader, error)
}

// StoreOptions configure a token store.
type StoreOptions struct {
	// Keys encrypt the tokens.
	Keys *seal.KeyRing

	// Limiters is the number of rate limits that processes share in the database. 0 means none.
	Limiters int

	// Existing forbids to create tables. The store fails if they are missing.
	Existing bool
}

// Store is an open token store.
type Store struct {
	tokenstore.Store

	// Limits shares the rate limits. It is nil if the database cannot.
	Limits ratelimit.Store

	// Close closes the database.
	Close func(context.Context) error
}

// InboxOptions configure an inbox.
type InboxOptions struct {
	// Keys encrypt the events.
	Keys *seal.KeyRing

	// Work configures the handling of events.
	Work webhook.Work
}

// Inbox is an open inbox.
type Inbox struct {
	// Engine is the inbox. Closing it does not close the database.
	Engine interface {
		engine.Engine
		reconcile.Inbox
	}

	// DB is for tables of the program, as in [Integration]. It can be nil.
	DB *sql.DB

	// Close closes the database.
	Close func(context.Context) error
}

// Counter counts events, as [engine.Engine] does.
type Counter interface {
	Stats(ctx context.Context) (engine.Stats, error)
}

// Reader is an open inbox that only counts events.
type Reader struct {
	Counter

	// Close closes the inbox and its database.
	Close func(context.Context) error
}

// drivers are the registered drivers by scheme.
var drivers = map[string]Driver{}

// Register adds the driver of all URLs with a scheme. Call it in the init function of a package,
// so that programs select their databases with an import. Register replaces an earlier driver.
func Register(scheme string, d Driver) { drivers[scheme] = d }

// IsLocal reports whether the host of a database is a socket or a loopback address, for
// [Driver].Private.
func IsLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}
