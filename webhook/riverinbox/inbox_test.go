package riverinbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"testing"

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
	pool := d.pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec })
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
		listed, err := inbox.List(t.Context(), f, engine.Position{}, 30)
		require.NoError(t, err)
		require.Len(t, listed, 1, "a handled event is not stored")
		assert.Equal(t, dead.Key, listed[0].Key)
	}
	_, err := inbox.Replay(t.Context(), engine.Filter{Keys: []webhook.Key{dead.Key}})
	require.NoError(t, err)
	assert.Equal(t, webhook.ResultDead, (<-made).Result)
	assert.Zero(t, count(t, d, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || $1 || '%'", d.schema))
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
