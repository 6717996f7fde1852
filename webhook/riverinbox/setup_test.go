package riverinbox_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/enginetest"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// database is a schema for one test.
type database struct {
	address, schema string // the address sets the schema as search path
	looking         *pgxpool.Pool
	ended           context.Context
}

// slots limits the number of concurrent tests on any number of cores. Each test uses up to 30
// of the 100 connections of the database.
var slots = make(chan struct{}, 3)

// newDatabase creates an empty schema. A parallel test must not create a second one.
func newDatabase(t testing.TB) database {
	t.Helper()
	address := postgrestest.Schema(t)
	u, err := url.Parse(address)
	require.NoError(t, err)
	ended, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	d := database{address: address, schema: u.Query().Get("search_path"), ended: ended}
	d.looking = d.pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["dispensary.inbox"] = "on" }) // it may end attempts
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	return d
}

// reader returns the shared pool for reading the database.
func (d database) reader(testing.TB) *pgxpool.Pool { return d.looking }

// exec executes a statement, even after the end of the test's context.
func (d database) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	_, err := d.looking.Exec(context.Background(), statement, args...)
	require.NoError(t, err)
}

// network is the network between a process of a test and the database.
type network struct {
	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

// dial fails while the network is down. It then opens no connection, because the server starts
// a process for each one and a pool tries many a second.
func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errors.New("the network is down")
	}
	conn, err := new(net.Dialer).DialContext(ctx, kind, address)
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

// resume allows connections again.
func (n *network) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

// cut closes all connections, and allows no new ones.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for _, conn := range n.conns {
		_ = conn.Close()
	}
}

// connect creates the pool of a process. It is closed after all its users.
func (d database) connect(t testing.TB, change ...func(*pgxpool.Config)) (*pgxpool.Pool, *network) {
	t.Helper()
	config, err := pgxpool.ParseConfig(d.address)
	require.NoError(t, err)
	n := &network{}
	config.ConnConfig.DialFunc, config.MaxConns = n.dial, 8
	for _, change := range change {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	context.AfterFunc(d.ended, func() {
		n.cut() // Close waits for the connections of a crashed process
		pool.Close()
	})
	return pool, n
}

// pool is connect for tests without network failures.
func (d database) pool(t testing.TB, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pool, _ := d.connect(t, change...)
	return pool
}

// testTakeOver is longer than any stall of a busy machine. Crash in
// TestInboxPassesConformanceSuite ends it early, so no test waits for it.
const testTakeOver = 12 * time.Second

// config returns the configuration of most tests.
func (d database) config(t testing.TB, handle webhook.HandlerFunc) riverinbox.Config {
	t.Helper()
	return riverinbox.Config{
		Seal: receivertest.KeyRing(t), Work: webhook.Work{Handle: handle, Workers: 4}, Schema: d.schema, TakeOver: testTakeOver,
	}.Quick()
}

// start opens an inbox and returns all its attempts. change may be nil.
func (d database) start(t testing.TB, handle webhook.HandlerFunc, change func(*riverinbox.Config)) (
	*riverinbox.Inbox, <-chan webhook.Attempt,
) {
	t.Helper()
	config := d.config(t, handle)
	if change != nil {
		change(&config)
	}
	made := receivertest.Observe(&config.Work)
	return open(t, d.pool(t), config), made
}

// idle creates an inbox that only accepts events. It is closed with the test.
func (d database) idle(t testing.TB, c riverinbox.Config, change ...func(*pgxpool.Config)) *riverinbox.Inbox {
	t.Helper()
	pool := d.pool(t, change...)
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.schema))
	inbox, err := riverinbox.New(t.Context(), pool, c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })
	return inbox
}

// open opens an inbox until the end of the test.
func open(t testing.TB, pool *pgxpool.Pool, c riverinbox.Config) *riverinbox.Inbox {
	t.Helper()
	inbox, err := riverinbox.Open(t.Context(), pool, c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })
	return inbox
}

// TestInboxPassesConformanceSuite gives each engine its own connections, like a process. A
// crash closes them, so the process has no further effect.
func TestInboxPassesConformanceSuite(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T) enginetest.Storage {
		d := newDatabase(t)
		config := d.config(t, nil)
		d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
		var networks sync.Map
		open := func(work webhook.Work, aead seal.AEAD) (engine.Engine, error) {
			pool, network := d.connect(t)
			c := config
			c.Work, c.Seal = work, aead
			inbox, err := riverinbox.Open(t.Context(), pool, c)
			if err != nil {
				return nil, err
			}
			networks.Store(inbox, network)
			return inbox, nil
		}
		return enginetest.Storage{
			Durable: true, Shared: true, Ordered: true,
			Open:       func(work webhook.Work) (engine.Engine, error) { return open(work, config.Seal) },
			OpenSealed: open,
			Crash: func(e engine.Engine) {
				n, _ := networks.Load(e)
				n.(*network).cut()
				d.exec(t, "DELETE FROM inbox_worker WHERE client = $1", e.(*riverinbox.Inbox).Name())
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				t.Cleanup(func() { _ = e.Close(ctx) })
			},
			Dump: func(t *testing.T) []byte { return dump(t, d) },
			InTransaction: func(ctx context.Context, then func() error) error {
				return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
					return errors.Join(write(ctx, tx), then())
				})
			},
			Rows: func(t *testing.T) []string { return texts(t, d, "SELECT key FROM effects") },
		}
	})
}

// known counts the given keys in the ledger.
func known(t *testing.T, d database, keys ...string) map[string]int {
	t.Helper()
	return countTexts(t, d, `SELECT key FROM unnest($1::text[]) key JOIN inbox_ledger ON digest = inbox_key_digest(key)`, keys)
}

// dump returns all rows of all tables, including River's.
func dump(t *testing.T, d database) []byte {
	t.Helper()
	tables := texts(t, d, "SELECT tablename FROM pg_tables WHERE schemaname = $1", d.schema)
	require.Subset(t, tables, []string{"river_job", "inbox_order"})
	var all []string
	for _, table := range tables {
		all = append(all, texts(t, d, "SELECT t::text FROM "+table+" t")...)
	}
	return []byte(strings.Join(all, "\n"))
}
