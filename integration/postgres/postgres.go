// Package postgres lets an integration keep tokens, webhook events and shared rate limits in
// PostgreSQL. Import it for its effect:
//
//	import _ "github.com/dispensary-go/dispensary/integration/postgres"
//
// The URL of a store or an inbox is then postgres://user:password@host/database. The inbox uses
// schema dispensary_inbox, and creates it. No other client of River may work there. For another
// schema, add ?search_path=… with its name to the URL. The pool of an inbox has 4 more connections
// than Work.Workers, unless pool_max_conns sets its size.
//
// If your program may not create tables, create them with [sqlstore.Schema], [riverinbox.Schema] and
// [pgstore.Schema]. To write your own tables in the transaction that marks an event as handled, see
// [riverinbox.InTransaction]. It finds tables by the search path of the URL, so with ?search_path the
// statements must name the schema of your tables. Read them through a pool of your own: Integration.DB
// is nil.
package postgres

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/ratelimit/pgstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

const (
	// storeConns is the number of connections of a store, as in pgx.
	storeConns = 4

	// moreConns is the number of connections of an inbox beside its workers: see
	// [riverinbox.Open], and one for the program.
	moreConns = 3 + 1

	// maxConnLifetime limits the use of a former primary that does not report its read-only
	// state (before version 14).
	maxConnLifetime = 5 * time.Minute

	// pingTimeout is the timeout for the ping of an idle connection. A server that died without
	// closing its connections never responds, and would use up the timeout of a transaction.
	pingTimeout = 2 * time.Second
)

func init() {
	integration.Register("postgres", integration.Driver{
		Parse: parse, Private: private, Shared: true, OpenStore: openStore, OpenInbox: openInbox, OpenReader: openReader,
	})
}

func parse(address string) (string, error) {
	if _, err := pgxpool.ParseConfig(address); err != nil {
		return "", errors.New("is not a valid PostgreSQL URL")
	}
	return address, nil
}

// private reports whether each host is on this machine or requires TLS.
func private(address string) bool {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return false
	}
	private := integration.IsLocal(config.ConnConfig.Host) || config.ConnConfig.TLSConfig != nil
	for _, other := range config.ConnConfig.Fallbacks {
		private = private && (integration.IsLocal(other.Host) || other.TLSConfig != nil)
	}
	return private
}

func openStore(ctx context.Context, address string, o integration.StoreOptions) (_ *integration.Store, err error) {
	pool, err := newPool(ctx, address, storeConns+int32(o.Limiters))
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	store := &integration.Store{Close: func(ctx context.Context) error { return errors.Join(db.Close(), closePool(ctx, pool)) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.Close(ctx))
		}
	}()
	if o.Limiters > 0 {
		limits, err := pgstore.New(pool)
		if err != nil {
			return nil, err
		}
		if err := limits.Migrate(ctx); err != nil {
			return nil, err
		}
		store.Limits = limits
	}
	open := sqlstore.Open
	if o.Existing {
		open = sqlstore.OpenExisting
	}
	store.Store, err = open(ctx, db, o.Keys)
	return store, err
}

func openInbox(ctx context.Context, address string, o integration.InboxOptions) (*integration.Inbox, error) {
	work, err := o.Work.WithDefaults()
	if err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, address, int32(work.Workers)+moreConns)
	if err != nil {
		return nil, err
	}
	inbox, err := riverinbox.Open(ctx, pool, riverinbox.Config{Work: o.Work, Seal: o.Keys, Schema: schemaOf(pool)})
	if err != nil {
		return nil, errors.Join(err, closePool(ctx, pool))
	}
	return &integration.Inbox{Engine: inbox, Close: func(ctx context.Context) error { return closePool(ctx, pool) }}, nil
}

func openReader(ctx context.Context, address string, keys *seal.KeyRing) (*integration.Reader, error) {
	pool, err := newPool(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	inbox, err := riverinbox.New(ctx, pool, riverinbox.Config{
		Seal: keys, Schema: schemaOf(pool),
		Work: webhook.Work{Handle: func(context.Context, events.Event) error { return errors.ErrUnsupported }},
	})
	if err != nil {
		return nil, errors.Join(err, closePool(ctx, pool))
	}
	return &integration.Reader{Counter: inbox, Close: func(ctx context.Context) error {
		return errors.Join(inbox.Close(ctx), closePool(ctx, pool))
	}}, nil
}

// newPool opens a pool with a limit of at least minConns connections. Parameters of the URL take
// precedence. The pool closes a connection to a read-only server on release. After a failover, the
// next use therefore connects to the new primary. The pool does not reject such a connection
// earlier, because a read-only database can still serve tokens.
func newPool(ctx context.Context, address string, minConns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	given := func(parameter string) bool {
		u, err := url.Parse(address)
		return err == nil && u.Query().Has(parameter)
	}
	if !given("pool_max_conns") {
		config.MaxConns = max(config.MaxConns, minConns)
	}
	if !given("pool_max_conn_lifetime") {
		config.MaxConnLifetime = maxConnLifetime
	}
	if !given("pool_ping_timeout") {
		config.PingTimeout = pingTimeout
	}
	config.AfterRelease = func(conn *pgx.Conn) bool {
		server := conn.PgConn()
		return server.ParameterStatus("in_hot_standby") != "on" && server.ParameterStatus("default_transaction_read_only") != "on"
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// closePool waits until all connections are released, or ctx ends.
func closePool(ctx context.Context, pool *pgxpool.Pool) error {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// schemaOf returns the schema of an inbox: the first one of the search path in the URL, if there
// is one.
func schemaOf(pool *pgxpool.Pool) string {
	first, _, _ := strings.Cut(pool.Config().ConnConfig.RuntimeParams["search_path"], ",")
	return strings.TrimSpace(first)
}
