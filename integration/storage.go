package integration

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
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

// openStore opens what Config.Store names, and makes its tables.
func (i *Integration) openStore(ctx context.Context, keys *seal.KeyRing) (tokenstore.Store, error) {
	i.limits = i.setup.RateLimitStore
	at, _ := parseAddress(i.config.Store, []kind{postgres, mysql, sqlite, memory}) // it has been checked
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

// openLimits creates the table of the rate limits.
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
	pool  *pgxpool.Pool // of db, if it is PostgreSQL
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
		d.db.SetConnMaxLifetime(3 * time.Minute) // servers and balancers end old connections without a word
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

// mysqlConns is how many connections a MySQL store has. Each method is a statement or
// two, so that few serve many users.
const mysqlConns = 10

// maxConnLifetime is the longest life of a connection to PostgreSQL. It bounds the use of a
// former primary whose version does not report that it is read-only (before 14).
const maxConnLifetime = 5 * time.Minute

// pingTimeout is the longest wait for a connection that was idle. A server that died without
// closing its connections never responds, and the whole timeout of a transaction would pass.
const pingTimeout = 2 * time.Second

// newPool opens a pool whose limit of connections is minConns or more. Parameters of the
// address take precedence. The pool closes a connection whose server is read-only as soon as it
// is released, so the next use opens a new one, which leads to the new primary after a
// failover. It still opens such a connection, because tokens are read while the database is
// read-only.
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

// closePool closes a pool, which waits until all its connections are back.
func closePool(pool *pgxpool.Pool) closer {
	return func(ctx context.Context) error {
		return within(ctx, func() error {
			pool.Close()
			return nil
		})
	}
}

// openInbox opens what Config.Inbox names, and makes its tables.
func (i *Integration) openInbox(ctx context.Context, keys *seal.KeyRing) (err error) {
	at, _ := parseAddress(i.config.Inbox, []kind{postgres, sqlite, memory}) // it has been checked
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
		inbox, err = sqlinbox.Open(at.name, sqlinbox.Config{Work: work, Seal: keys, MinFreeBytes: i.setup.MinFreeBytes})
	case postgres:
		var pool *pgxpool.Pool
		if pool, err = poolFor(ctx, at.name, work); err != nil {
			return err
		}
		i.inbox = closePool(pool)
		inbox, err = riverinbox.Open(ctx, pool, riverinbox.Config{Work: work, Seal: keys})
	}
	if err != nil {
		return err
	}
	i.Inbox, i.events = inbox, inbox
	return nil
}

// poolFor makes a pool that is large enough for an inbox on River whose handlers all use a
// connection, and for the program, unless the address says how large it is to be.
func poolFor(ctx context.Context, name string, work webhook.Work) (*pgxpool.Pool, error) {
	work, err := work.WithDefaults()
	if err != nil {
		return nil, err
	}
	const more = 3 + 1 // see [riverinbox.Open], and one for the program
	return newPool(ctx, name, int32(work.Workers)+more)
}

// afterBegin handles no event before Run: what a process before left in the inbox is due
// at once, before the program has the Integration that its handlers use. A wait that
// takes longer than a handler may take is no failed attempt.
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
