package integration

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of mysql:
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/ratelimit/pgstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// openStore opens the store of Config.Store and creates its missing tables.
func (i *Integration) openStore(ctx context.Context, keys *seal.KeyRing) (tokenstore.Store, error) {
	i.limits = i.setup.RateLimitStore
	at, _ := parseAddress(i.config.Store, []kind{postgres, mysql, sqlite, memory}) // Check has validated it
	if at.kind == memory {
		return tokenstore.NewMemoryStore(), nil
	}
	d, err := openDatabase(ctx, at, len(i.config.Applications))
	if err != nil {
		return nil, err
	}
	i.store = d.close
	if i.limits == nil && d.pool != nil && i.config.sharesLimits() {
		if i.limits, err = openLimits(ctx, d.pool); err != nil {
			return nil, err
		}
	}
	return sqlstore.Open(ctx, d.db, keys)
}

// openLimits creates the table of the rate limits if it is missing.
func openLimits(ctx context.Context, pool *pgxpool.Pool) (ratelimit.Store, error) {
	limits, err := pgstore.New(pool)
	if err != nil {
		return nil, err
	}
	return limits, limits.Migrate(ctx)
}

// database is the database of a store.
type database struct {
	db    *sql.DB
	pool  *pgxpool.Pool // pool of db, nil unless it is PostgreSQL
	close closer
}

// openDatabase opens the database of a store. Each limiter may use a connection.
func openDatabase(ctx context.Context, at address, limiters int) (d database, err error) {
	switch at.kind {
	case sqlite:
		if d.db, err = sqlstore.OpenSQLite("sqlite", at.name); err != nil {
			return database{}, err
		}
	case mysql:
		if d.db, err = sql.Open("mysql", at.name); err != nil {
			return database{}, err
		}
		d.db.SetMaxOpenConns(mysqlConns)
		d.db.SetMaxIdleConns(mysqlConns)
		d.db.SetConnMaxLifetime(3 * time.Minute) // servers and load balancers drop old connections silently
	default:
		if d.pool, err = newPool(ctx, at.name, storeConns+int32(limiters)); err != nil {
			return database{}, err
		}
		d.db = stdlib.OpenDBFromPool(d.pool)
		d.close = func(ctx context.Context) error { return errors.Join(d.db.Close(), closePool(d.pool)(ctx)) }
		return d, nil
	}
	d.close = func(context.Context) error { return d.db.Close() }
	return d, nil
}

// storeConns is the number of connections of a PostgreSQL store, as in pgx.
const storeConns = 4

// mysqlConns is the number of connections of a MySQL store. Each method runs one or two
// statements, so few connections serve many users.
const mysqlConns = 10

// maxConnLifetime is the longest life of a connection to PostgreSQL. It limits the use of a former
// primary that does not report its read-only state (before version 14).
const maxConnLifetime = 5 * time.Minute

// pingTimeout is the timeout for the ping of an idle connection. A server that died without
// closing its connections never responds, and would use up the timeout of a transaction.
const pingTimeout = 2 * time.Second

// newPool opens a pool with a limit of at least minConns connections. Parameters of the URL take
// precedence. The pool closes a connection to a read-only server on release. After a failover, the
// next use therefore connects to the new primary. The pool does not reject such a connection
// earlier, because a read-only database can still serve tokens.
func newPool(ctx context.Context, name string, minConns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(name)
	if err != nil {
		return nil, err
	}
	given := func(parameter string) bool {
		u, err := url.Parse(name)
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

// closePool returns a closer of a pool. It waits until all connections are released.
func closePool(pool *pgxpool.Pool) closer {
	return func(ctx context.Context) error {
		return within(ctx, func() error {
			pool.Close()
			return nil
		})
	}
}

// openInbox opens the inbox of Config.Inbox and creates its missing tables.
func (i *Integration) openInbox(ctx context.Context, keys *seal.KeyRing) (err error) {
	at, _ := parseAddress(i.config.Inbox, []kind{postgres, sqlite, memory}) // Check has validated it
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
	var inbox interface {
		engine.Engine
		reconcile.Inbox
	}
	switch at.kind {
	case memory:
		inbox, err = memoryinbox.New(memoryinbox.Config{Work: work})
	case sqlite:
		var name string
		if name, err = sqlinbox.DSN(at.name); err != nil {
			return err
		}
		if i.DB, err = sql.Open("sqlite", name); err != nil {
			return err
		}
		i.inbox = func(context.Context) error { return i.DB.Close() }
		inbox, err = sqlinbox.Open(at.name, sqlinbox.Config{Work: work, Seal: keys})
	case postgres:
		var pool *pgxpool.Pool
		if pool, err = poolFor(ctx, at.name, work); err != nil {
			return err
		}
		i.inbox = closePool(pool)
		inbox, err = riverinbox.Open(ctx, pool, riverinbox.Config{Work: work, Seal: keys, Schema: schemaOf(pool)})
	}
	if err != nil {
		return err
	}
	i.Inbox, i.events = inbox, inbox
	return nil
}

// poolFor opens a pool for an inbox on River. The pool is large enough if every handler and the
// program use a connection, unless the URL sets its size.
func poolFor(ctx context.Context, name string, work webhook.Work) (*pgxpool.Pool, error) {
	work, err := work.WithDefaults()
	if err != nil {
		return nil, err
	}
	const more = 3 + 1 // see [riverinbox.Open], and one for the program
	return newPool(ctx, name, int32(work.Workers)+more)
}

// schemaOf returns the schema of an inbox on River: the first one of the search path in the URL, if
// there is one.
func schemaOf(pool *pgxpool.Pool) string {
	first, _, _ := strings.Cut(pool.Config().ConnConfig.RuntimeParams["search_path"], ",")
	return strings.TrimSpace(first)
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
