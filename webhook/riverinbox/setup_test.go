package riverinbox_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/postgrestest"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// database is a schema that ends with its test.
type database struct {
	address, schema string // the address has the schema as search path
	pools           *pools
}

// pools are closed when everything that uses them has been.
type pools struct {
	mu     sync.Mutex
	open   []*pgxpool.Pool
	nets   []*network
	reader *pgxpool.Pool // for looking into the database
}

func (p *pools) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, pool := range p.open {
		p.nets[n].cut()
		go pool.Close() // waits for connections that a crashed process holds
	}
}

// slots bound how many tests are in the database at a time, however many cores
// there are: each takes up to twenty of its hundred connections.
var slots = make(chan struct{}, 4)

// newDatabase makes an empty schema. A test that needs more than one makes the
// others with newSchema.
func newDatabase(t testing.TB) database {
	t.Helper()
	d := newSchema(t)
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	return d
}

func newSchema(t testing.TB) database {
	t.Helper()
	address := postgrestest.Schema(t)
	u, err := url.Parse(address)
	require.NoError(t, err)
	d := database{address, u.Query().Get("search_path"), &pools{}}
	t.Cleanup(d.pools.close)
	return d
}

// exec runs a statement in a connection of its own.
func (d database) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement, args...)
	require.NoError(t, err)
}

// network is what lies between a process of a test and the database.
type network struct {
	mu      sync.Mutex
	down    bool
	refused bool // a connection was refused while it was down
	conns   []net.Conn
}

// dial reaches the database only where the network lets it: a server that accepts a
// connection starts a process, and who is cut off tries many times a second.
func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	if err := n.pass(nil); err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	if err := n.pass(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// pass fails while the network is down. It remembers a connection, which may be nil.
func (n *network) pass(conn net.Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		n.refused = true
		return errors.New("the network is down")
	}
	if conn != nil {
		n.conns = append(n.conns, conn)
	}
	return nil
}

// wasRefused reports that a connection was refused while it was down.
func (n *network) wasRefused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused
}

// resume lets connections through again.
func (n *network) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

// cut ends every connection, and lets none through.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for _, conn := range n.conns {
		_ = conn.Close()
	}
}

// connect makes a pool as a process has one, in the schema.
func (d database) connect(t testing.TB) (*pgxpool.Pool, *network) {
	t.Helper()
	config, err := pgxpool.ParseConfig(d.address)
	require.NoError(t, err)
	n := &network{}
	config.ConnConfig.DialFunc = n.dial
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	d.pools.mu.Lock()
	defer d.pools.mu.Unlock()
	d.pools.open, d.pools.nets = append(d.pools.open, pool), append(d.pools.nets, n)
	return pool, n
}

// reader returns a pool for looking into the database, always the same.
func (d database) reader(t testing.TB) *pgxpool.Pool {
	t.Helper()
	d.pools.mu.Lock()
	reader := d.pools.reader
	d.pools.mu.Unlock()
	if reader == nil {
		reader = d.pool(t)
		d.pools.mu.Lock()
		d.pools.reader = reader
		d.pools.mu.Unlock()
	}
	return reader
}

// pool is connect for tests that leave the network alone.
func (d database) pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, _ := d.connect(t)
	return pool
}

// testTakeOver is longer than any stall of a busy machine. No test waits for its end: see crash.
const testTakeOver = 12 * time.Second

// config is what most tests open an inbox with.
func (d database) config(t testing.TB, handle webhook.HandlerFunc) riverinbox.Config {
	t.Helper()
	return riverinbox.Config{
		Seal: receivertest.KeyRing(t), Work: webhook.Work{Handle: handle, Workers: 4}, Schema: d.schema, TakeOver: testTakeOver,
	}.Quick()
}

// start opens an inbox, and returns every attempt that it makes; change may be nil.
func (d database) start(t testing.TB, handle webhook.HandlerFunc, change func(*riverinbox.Config)) (*riverinbox.Inbox, <-chan webhook.Attempt) {
	t.Helper()
	config := d.config(t, handle)
	if change != nil {
		change(&config)
	}
	made := receivertest.Observe(&config.Work)
	return open(t, d.pool(t), config), made
}

// idle makes an inbox that accepts, and is closed with the test.
func (d database) idle(t testing.TB, c riverinbox.Config) *riverinbox.Inbox {
	t.Helper()
	pool := d.pool(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.schema))
	inbox, err := riverinbox.New(t.Context(), pool, c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })
	return inbox
}

// open opens an inbox that is closed with the test.
func open(t testing.TB, pool *pgxpool.Pool, c riverinbox.Config) *riverinbox.Inbox {
	t.Helper()
	inbox, err := riverinbox.Open(t.Context(), pool, c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })
	return inbox
}
