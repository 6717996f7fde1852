package riverinbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestAcceptRejectsTooLongKey rejects keys of more than 2,600 bytes. Ordering keys have no
// limit.
func TestAcceptRejectsTooLongKey(t *testing.T) {
	t.Parallel()
	inbox, made := newDatabase(t).start(t, receivertest.Succeed, func(c *riverinbox.Config) {
		c.Work.Stale = webhook.StalePolicyReport
		c.Work.Order = func(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
			return webhook.OrderingKey("long " + d.Key.EventID + incompressible(3000))
		}
	})
	event := receivertest.NewDelivery()
	event.Key.EventID = incompressible(3000)
	_, err := inbox.Accept(t.Context(), event)
	require.ErrorIs(t, err, webhook.ErrUnstorable)
	assert.Equal(t, "webhook.Delivery.Key", fieldOf(t, err))
	assert.NotContains(t, err.Error(), event.Key.EventID[:10])

	event.Key.EventID = incompressible(2500)
	event.Body = bytes.Replace(event.Body, []byte(`"pa_`), []byte(`"pa_`+incompressible(3000)), 1)
	acceptNew(t, inbox, event)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	acceptAgain(t, inbox, event)
}

// incompressible returns a text that PostgreSQL cannot compress.
func incompressible(length int) (text string) {
	for len(text) < length {
		text += rand.Text()
	}
	return text[:length]
}

// TestPollOnlyNeedsNoListen uses neither LISTEN nor prepared statements, as behind PgBouncer.
func TestPollOnlyNeedsNoListen(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t, func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode, c.ConnConfig.RuntimeParams["bytea_output"] = pgx.QueryExecModeExec, "escape"
	})
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	config := d.config(t, func(ctx context.Context, e events.Event) error {
		if e.Type == events.TypePatientCreated {
			return errors.New(receivertest.Canary)
		}
		return riverinbox.InTransaction(ctx, write)
	})
	config.Work.Order, config.Work.Stale, config.Work.Retry.MaxAttempts = webhook.ByObject, webhook.StalePolicyReport, 1
	config.PollOnly = true
	made := receivertest.Observe(&config.Work)
	inbox := open(t, pool, config)
	dead := ofPatientOne(events.TypePatientCreated)
	acceptNew(t, inbox, dead)
	assert.Equal(t, webhook.ResultDead, (<-made).Result)
	handled := receivertest.Accept(t, inbox)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	assert.Equal(t, []string{handled.Key.String()}, texts(t, d, "SELECT key FROM effects"))

	acceptAgain(t, inbox, handled)
	require.NoError(t, errors.Join(inbox.Sweep(t.Context()), inbox.Beat(t.Context()), inbox.Purge(t.Context())))
	for _, f := range []engine.Filter{{}, {ClinicID: "cl_1"}, {Keys: []webhook.Key{handled.Key, dead.Key}}} {
		listed, err := inbox.List(t.Context(), f, engine.Page{Limit: 30})
		require.NoError(t, err)
		require.Len(t, listed, 1, "a handled event is not stored")
		assert.Equal(t, dead.Key, listed[0].Key)
	}
	_, err := inbox.Replay(t.Context(), engine.Filter{Keys: []webhook.Key{dead.Key}})
	require.NoError(t, err)
	assert.Equal(t, webhook.ResultDead, (<-made).Result)
	state := bytes.Repeat([]byte("\x00\\'\xff"), 100)
	_, err = inbox.ClaimCheckpoint(t.Context(), "one", "me", time.Minute)
	require.NoError(t, errors.Join(err, inbox.SaveCheckpoint(t.Context(), "one", "me", state, time.Minute)))
	saved, err := inbox.ReadCheckpoint(t.Context(), "one")
	require.NoError(t, err)
	assert.Equal(t, state, saved)
	assert.Zero(t, count(t, d, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || $1 || '%'", d.schema))
}

// TestBusyPoolIsNoFailure uses all connections of the pool.
func TestBusyPoolIsNoFailure(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	require.NoError(t, riverinbox.Migrate(t.Context(), d.looking, d.schema))
	inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
	require.NoError(t, err)
	defer func() { assert.NoError(t, inbox.Close(context.Background())) }()
	check := func() (write, stats error) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, stats = inbox.Stats(ctx)
		return inbox.CheckWrite(ctx), stats
	}
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	write, stats := check()
	require.ErrorIs(t, write, engine.ErrBusy)
	require.ErrorIs(t, stats, engine.ErrBusy)
	require.ErrorIs(t, stats, context.DeadlineExceeded)
	conn.Release()
	require.NoError(t, inbox.CheckWrite(t.Context()))
}

// TestCheckWriteSharesNoRow locks the rows that other processes have written.
func TestCheckWriteSharesNoRow(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, other := d.idle(t, d.config(t, receivertest.Succeed)), d.idle(t, d.config(t, receivertest.Succeed))
	require.NoError(t, other.CheckWrite(t.Context()))
	tx, err := d.looking.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, table := range []string{"inbox_worker", "inbox_checkpoints", "inbox_ledger", "river_job"} {
		_, err = tx.Exec(t.Context(), "SELECT FROM "+table+" FOR UPDATE")
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, inbox.CheckWrite(ctx))
	d.exec(t, "ALTER FUNCTION inbox_accept RENAME TO gone")
	require.Error(t, inbox.CheckWrite(ctx), "an accept would fail")
}

// TestStatsReadsNoJob counts the rows that PostgreSQL reads.
func TestStatsReadsNoJob(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.schema))
	inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
	require.NoError(t, err)
	defer func() { assert.NoError(t, inbox.Close(context.Background())) }()
	d.exec(t, `INSERT INTO river_job (args, kind, max_attempts, metadata, queue, state)
		SELECT '{}', 'dispensary_webhook', 6, '{}', 'dispensary_webhooks', 'available' FROM generate_series(1, 3000)`)
	d.exec(t, "VACUUM ANALYZE river_job")
	const read = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'river_job'::regclass"
	before := count(t, d, read)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3000, stats.Waiting)
	for _, conn := range pool.AcquireAllIdle(t.Context()) {
		_, err := conn.Exec(t.Context(), "SELECT pg_stat_force_next_flush()")
		require.NoError(t, err)
		conn.Release()
	}
	assert.Equal(t, before, count(t, d, read))
}

// statements records statements.
type statements struct {
	mu  sync.Mutex
	all []string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, q.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAnnouncementsDoNotWaitForDisk requires it, because all of them take turns.
func TestAnnouncementsDoNotWaitForDisk(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	tracer := &statements{}
	c := d.config(t, receivertest.Succeed)
	ordered(&c)
	inbox := d.idle(t, c, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	acceptNew(t, inbox, in("a", 1))
	announced := func() (n int) {
		tracer.mu.Lock()
		defer tracer.mu.Unlock()
		for _, statement := range tracer.all {
			if strings.HasPrefix(statement, "SELECT") && strings.Contains(statement, "river_insert'") {
				assert.Contains(t, statement, "set_config('synchronous_commit', 'off', true)")
				n++
			}
		}
		return n
	}
	eventually(t, func() bool { return announced() > 0 }, "the event is not announced")
	tx, err := d.looking.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "INSERT INTO inbox_moves (ordering_key) VALUES (gen_random_uuid())")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT inbox_settle(0)")
	require.NoError(t, err)
	var setting string
	require.NoError(t, tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&setting))
	assert.Equal(t, "off", setting, "a head moves with its ordering key locked")
}

// TestInTransactionEndsTransaction lets a handler commit or roll back the transaction.
func TestInTransactionEndsTransaction(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	ends := []func(pgx.Tx, context.Context) error{pgx.Tx.Commit, pgx.Tx.Rollback}
	var inbox *riverinbox.Inbox
	inbox, made := d.start(t, func(ctx context.Context, _ events.Event) error {
		return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			attempt := webhook.HandlingFrom(ctx).Attempt
			if attempt <= len(ends) {
				return errors.Join(write(ctx, tx), ends[attempt-1](tx, ctx))
			}
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return write(ctx, tx) }) // a savepoint
		})
	}, func(c *riverinbox.Config) { c.Work.Retry.BackOff = time.Millisecond })
	receivertest.Accept(t, inbox)
	for range ends {
		a := next(t, made)
		assert.Equal(t, webhook.ResultFailed, a.Result)
		require.ErrorContains(t, a.Err, "InTransaction ends the transaction")
	}
	assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM effects"))
}

// TestResealWaitsForHandlers re-encrypts events while a handler keeps one of them locked.
func TestResealWaitsForHandlers(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	handle, begun, gate := openHandler()
	config := d.config(t, handle)
	config.Work.Order = webhook.ByObject
	old, _ := seal.GenerateKey("old")
	fresh, _ := seal.GenerateKey("fresh")
	both, err := seal.NewKeyRing(fresh, old)
	require.NoError(t, err)
	config.Seal, _ = seal.NewKeyRing(old)
	before := d.idle(t, config)
	acceptNew(t, before, ofPatientOne(events.TypePatientCreated), ofPatientOne(events.TypePatientUpdated), ofPatientOne(events.TypePatientUpdated))
	config.Seal = both
	made := receivertest.Observe(&config.Work)
	inbox := open(t, d.pool(t), config)
	<-begun
	resealed := make(chan int, 1)
	go func() {
		n, err := inbox.Reseal(context.Background())
		assert.NoError(t, err)
		resealed <- n
	}()
	eventually(t, func() bool {
		return count(t, d, `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%jsonb_set%'`, d.schema) > 0
	}, "Reseal does not wait for the handler")
	close(gate)
	for range 3 {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
	assert.LessOrEqual(t, <-resealed, 2, "the first event has been handled")
}

// In a deadlock, PostgreSQL cancels one of the statements.
func TestHandleNowSurvivesDeadlock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	acceptNew(t, inbox, receivertest.NewDelivery(), receivertest.NewDelivery())
	d.exec(t, "UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 hour'")
	waiting, err := inbox.Count(t.Context(), engine.Filter{States: []engine.State{engine.StateWaiting}}, 10)
	require.NoError(t, err)
	require.Equal(t, 2, waiting.Total)
	other, err := d.looking.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = other.Rollback(context.Background()) }()
	_, err = other.Exec(t.Context(), "SELECT FROM river_job ORDER BY id DESC LIMIT 1 FOR UPDATE")
	require.NoError(t, err)
	changed := make(chan int, 1)
	go func() {
		n, err := inbox.HandleNow(context.Background(), engine.Filter{Until: waiting.Until})
		assert.NoError(t, err)
		changed <- n
	}()
	eventually(t, func() bool {
		return count(t, d, `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%scheduled_at%'`, d.schema) > 0
	}, "HandleNow does not wait for the other transaction")
	_, _ = other.Exec(t.Context(), "SELECT FROM river_job ORDER BY id LIMIT 1 FOR UPDATE") // either statement may be canceled
	require.NoError(t, other.Rollback(t.Context()))
	assert.Equal(t, 2, <-changed)
}

// openHandler returns a handler that keeps its transaction open until the gate opens, but only
// for new patients.
func openHandler() (handle webhook.HandlerFunc, begun, gate chan struct{}) {
	begun, gate = make(chan struct{}, 10), make(chan struct{})
	return func(ctx context.Context, e events.Event) error {
		if e.Type != events.TypePatientCreated {
			return nil
		}
		return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			begun <- struct{}{}
			return errors.Join(receivertest.Until(ctx, gate), write(ctx, tx))
		})
	}, begun, gate
}

// ofPatientOne returns an event, always of the same patient.
func ofPatientOne(kind events.Type) webhook.Delivery {
	event := receivertest.NewDelivery()
	event.Body = bytes.Replace(event.Body, []byte(event.Type), []byte(kind), 1)
	event.Body = regexp.MustCompile(`"pa_\d+"`).ReplaceAll(event.Body, []byte(`"pa_one"`))
	event.Type = kind
	return event
}

// TestLongTransactionBlocksNoOtherWork keeps a handler's transaction open during repeated
// accepts, other events of its ordering key and of its object, and all maintenance of the
// inbox.
func TestLongTransactionBlocksNoOtherWork(t *testing.T) {
	t.Parallel()
	byEvent := func(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
		return webhook.OrderingKey(d.Key.EventID)
	}
	for _, sameOrder := range []bool{true, false} {
		t.Run(fmt.Sprint("same ordering key ", sameOrder), func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
			handle, begun, gate := openHandler()
			inbox, made := d.start(t, handle, func(c *riverinbox.Config) {
				if c.Work.Order, c.Work.Stale = byEvent, webhook.StalePolicyReport; sameOrder {
					c.Work.Order = webhook.ByObject
				}
			})
			event, behind := ofPatientOne(events.TypePatientCreated), ofPatientOne(events.TypePatientUpdated)
			acceptNew(t, inbox, event)
			<-begun
			acceptNew(t, inbox, behind)
			acceptAgain(t, inbox, event)
			if !sameOrder {
				assert.Equal(t, behind.Key, (<-made).Key)
			}
			other := receivertest.Accept(t, inbox)
			assert.Equal(t, other.Key, (<-made).Key)
			ctx := t.Context()
			require.NoError(t, errors.Join(inbox.Sweep(ctx), inbox.Beat(ctx), inbox.Purge(ctx), inbox.CheckWrite(ctx)))
			close(gate)
			a := <-made
			assert.Equal(t, event.Key, a.Key)
			assert.Equal(t, webhook.ResultHandled, a.Result)
			if sameOrder {
				assert.Equal(t, behind.Key, (<-made).Key)
			}
			assert.Equal(t, []string{event.Key.String()}, texts(t, d, "SELECT key FROM effects"))
			assert.Equal(t, 2, count(t, d, "SELECT count(*) FROM inbox_newest"), "times of two objects")
		})
	}
}

// TestReadOnlyConnectionsAreReplaced makes connections read-only. After a failover,
// connections to the former primary respond to everything except writes.
func TestReadOnlyConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, config := d.pool(t), d.config(t, receivertest.Succeed)
	made := receivertest.Observe(&config.Work)
	inbox := open(t, pool, config)
	receivertest.Accept(t, inbox)
	require.NoError(t, next(t, made).Err)
	db := stdlib.OpenDBFromPool(pool)
	sqltest.Demote(t, "pgx", db, int(pool.Config().MaxConns)-1) // one connection listens
	require.NoError(t, db.Close())
	eventually(t, func() bool {
		_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
		return err == nil
	}, "Accept cannot write")
	require.NoError(t, next(t, made).Err, "River must fetch the event, and its outcome must be recorded")
	eventually(t, func() bool { return allWritable(t, pool, inbox) }, "a read-only connection stays")
}

// allWritable reports whether all idle connections are writable. If not, it writes with a
// read-only connection. The pool would prefer a writable one.
func allWritable(t *testing.T, pool *pgxpool.Pool, inbox *riverinbox.Inbox) bool {
	writable := true
	for _, conn := range pool.AcquireAllIdle(t.Context()) {
		var readOnly bool
		err := conn.QueryRow(t.Context(), "SELECT current_setting('transaction_read_only')::boolean").Scan(&readOnly)
		if !assert.NoError(t, err) || readOnly {
			writable = false
			conn.Release()
			continue
		}
		defer conn.Release()
	}
	if !writable {
		_ = inbox.CheckWrite(t.Context()) // fails
	}
	return writable
}
