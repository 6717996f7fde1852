package riverinbox_test

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// write inserts a row of the program's own.
func write(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (key) VALUES ($1)", webhook.HandlingFrom(ctx).Key.String())
	return err
}

// TestLongTransactionDoesNotDelayOthers has a transaction go on for longer than a
// lease, beside a handler that needs its own lease extended.
func TestLongTransactionDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	begun, gate := make(chan struct{}, 2), make(chan struct{})
	wait := func(ctx context.Context) error {
		begun <- struct{}{}
		return receivertest.Until(ctx, gate)
	}
	config := d.config(t, func(ctx context.Context, e events.Event) error {
		if e.Type == events.PatientCreated {
			return wait(ctx)
		}
		return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(wait(ctx), write(ctx, tx))
		})
	})
	config.Lease = 4 * time.Second
	made := receivertest.Observe(&config.Work)
	inbox, other := open(t, d.pool(t), config), open(t, d.pool(t), config)
	receivertest.Accept(t, inbox)
	created := receivertest.NewDelivery()
	created.Type, created.Body = events.PatientCreated, bytes.Replace(created.Body, []byte("updated"), []byte("created"), 1)
	_, err := other.Accept(t.Context(), created)
	require.NoError(t, err)
	<-begun
	<-begun
	now := time.Now()
	require.Eventually(t, func() bool {
		return count(t, d, "SELECT count(*) FROM dispensary_inbox_lines WHERE until > $1", now.Add(2*config.Lease)) == 2
	}, 2*time.Minute, 20*time.Millisecond)
	close(gate)
	for range 2 {
		a := <-made
		assert.Equal(t, webhook.ResultHandled, a.Result)
		assert.Equal(t, 1, a.Number)
	}
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM effects"))
}

// TestOneThatIsRefusedHarmsNoOther shares a transaction between deliveries of
// which the database cannot take one.
func TestOneThatIsRefusedHarmsNoOther(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, made := d.start(t, receivertest.Succeed, nil)
	d.exec(t, "ALTER TABLE dispensary_inbox ADD CHECK (clinic_id <> 'refused')")
	results := make(chan error, 20)
	for n := range cap(results) {
		event := receivertest.NewDelivery()
		if n%4 == 0 {
			event.ClinicID = "refused"
		}
		go func() {
			_, err := inbox.Accept(context.Background(), event)
			results <- err
		}()
	}
	refused := 0
	for range cap(results) {
		if err := <-results; err != nil {
			refused++
			assert.NotContains(t, err.Error(), receivertest.Canary)
		}
	}
	assert.Equal(t, 5, refused)
	for range 15 {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
}

// TestTextsThatPostgresHasNoPlaceFor are no reason to refuse an event.
func TestTextsThatPostgresHasNoPlaceFor(t *testing.T) {
	t.Parallel()
	inbox, made := newDatabase(t).start(t, receivertest.Succeed, func(c *riverinbox.Config) {
		c.Work.Order = func(d webhook.Delivery, _ events.Event) webhook.OrderingKey { return webhook.OrderingKey(d.Type) }
	})
	event := receivertest.NewDelivery()
	event.Type, event.ClinicID = "a\x00b", "\xff\x00"
	_, err := inbox.Accept(t.Context(), event)
	require.NoError(t, err)
	a := <-made
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, events.Type("a\uFFFDb"), a.Type)
	assert.Equal(t, string(event.Body), string(a.Body))
}

// TestARepetitionDoesNotWaitForTheHandler repeats an event while its handler has
// its transaction open, as the platform does after an acknowledgement was lost.
func TestARepetitionDoesNotWaitForTheHandler(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	begun, gate := make(chan struct{}), make(chan struct{})
	inbox, made := d.start(t, func(ctx context.Context, _ events.Event) error {
		return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			close(begun)
			return errors.Join(receivertest.Until(ctx, gate), write(ctx, tx))
		})
	}, nil)
	event := receivertest.Accept(t, inbox)
	<-begun
	for range 3 {
		receipt, err := inbox.Accept(t.Context(), event)
		require.NoError(t, err)
		assert.True(t, receipt.Duplicate)
	}
	close(gate)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM effects"))
}

// TestAnOpenTransactionKeepsNoOtherWaiting has another replica accept an event and pause
// before the commit, while that event and others arrive.
func TestAnOpenTransactionKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(pgx.Tx) error{
		"commit":   func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		"rollback": func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			inbox, _ := d.start(t, receivertest.Succeed, nil)
			tx, err := d.pool(t).Begin(t.Context())
			require.NoError(t, err)
			event, forsaken := receivertest.NewDelivery(), receivertest.NewDelivery()
			for _, e := range []webhook.Delivery{event, forsaken} {
				_, err = inbox.AcceptIn(t.Context(), tx, e)
				require.NoError(t, err)
			}

			type result struct {
				receipt webhook.Receipt
				err     error
			}
			repeated := make(chan result, 1)
			go func() {
				receipt, err := inbox.Accept(context.Background(), event)
				repeated <- result{receipt, err}
			}()
			left, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				_, err := inbox.Accept(left, forsaken)
				gone <- err
			}()
			for range 5 {
				var group sync.WaitGroup
				for range 50 {
					group.Go(func() {
						receipt, err := inbox.Accept(context.Background(), receivertest.NewDelivery())
						assert.NoError(t, err)
						assert.False(t, receipt.Duplicate)
					})
				}
				group.Wait()
			}
			cancel()
			require.ErrorIs(t, <-gone, context.Canceled)
			select {
			case r := <-repeated:
				require.Fail(t, "it is not known yet whether the event is there", "%v", r)
			default:
			}
			require.NoError(t, end(tx))
			r := <-repeated
			require.NoError(t, r.err)
			assert.Equal(t, name == "commit", r.receipt.Duplicate)
			want := 251
			if known(t, d, forsaken.Key.String())[forsaken.Key.String()] > 0 {
				want++
			}
			assert.Len(t, known(t, d), want)
		})
	}
}

// TestCloseWaitsForNoOtherReplica closes an inbox while an event waits for such a transaction.
func TestCloseWaitsForNoOtherReplica(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, _ := d.start(t, receivertest.Succeed, nil)
	tx, err := d.pool(t).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	event := receivertest.NewDelivery()
	_, err = inbox.AcceptIn(t.Context(), tx, event)
	require.NoError(t, err)
	repeated := make(chan error, 1)
	go func() {
		_, err := inbox.Accept(context.Background(), event)
		repeated <- err
	}()
	receivertest.Accept(t, inbox)
	require.NoError(t, inbox.Close(t.Context()))
	require.ErrorIs(t, <-repeated, webhook.ErrInboxClosed)
}

// openHandler is a handler that holds its transaction open, for events of one type,
// until the gate is open. Others are handled at once.
func openHandler() (handle webhook.HandlerFunc, begun, gate chan struct{}) {
	begun, gate = make(chan struct{}, 10), make(chan struct{})
	return func(ctx context.Context, e events.Event) error {
		if e.Type != events.PatientCreated {
			return nil
		}
		return riverinbox.InTransaction(ctx, func(ctx context.Context, _ pgx.Tx) error {
			begun <- struct{}{}
			return receivertest.Until(ctx, gate)
		})
	}, begun, gate
}

// acceptCreated is accept with an event of the type that openHandler waits for.
func acceptCreated(t *testing.T, inbox webhook.Inbox) {
	t.Helper()
	event := receivertest.NewDelivery()
	event.Type, event.Body = events.PatientCreated, patientOne(bytes.Replace(event.Body, []byte("updated"), []byte("created"), 1))
	_, err := inbox.Accept(t.Context(), event)
	require.NoError(t, err)
}

// TestAnOpenTransactionKeepsNoEventOfItsObjectWaiting has two events of one object,
// which are in no line, handled at the same time.
func TestAnOpenTransactionKeepsNoEventOfItsObjectWaiting(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	handle, begun, gate := openHandler()
	inbox, made := d.start(t, handle, func(c *riverinbox.Config) {
		c.Work.Order = func(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
			return webhook.OrderingKey(d.Key.EventID)
		}
		c.Work.Stale = webhook.StaleReport
	})
	acceptCreated(t, inbox)
	<-begun
	other := receivertest.NewDelivery()
	other.Body = patientOne(other.Body)
	_, err := inbox.Accept(t.Context(), other)
	require.NoError(t, err)
	a := <-made
	assert.Equal(t, other.Key, a.Key)
	assert.Equal(t, webhook.ResultHandled, a.Result)
	close(gate)
	a = <-made
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_newest"), "they are of one object")
}

// patientOne makes an event one of always the same patient.
func patientOne(body []byte) []byte {
	return regexp.MustCompile(`"pa_\d+"`).ReplaceAll(body, []byte(`"pa_one"`))
}

// TestAnOpenTransactionKeepsNoWorker has a handler's transaction go on for longer than
// a lease, so that another worker looks whether it was abandoned. The lease is long
// enough for a busy machine to extend it in time.
func TestAnOpenTransactionKeepsNoWorker(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(webhook.Delivery, events.Event) webhook.OrderingKey{"in no line": nil, "in a line": webhook.ByObject} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			handle, begun, gate := openHandler()
			inbox, made := d.start(t, handle, func(c *riverinbox.Config) {
				c.Lease, c.Work.Workers, c.Work.Order = 4*time.Second, 2, order
			})
			acceptCreated(t, inbox)
			<-begun
			// The line is lost as well, as that of a worker that gave no sign of life.
			require.Eventually(t, func() bool {
				d.exec(t, "UPDATE dispensary_inbox_lines SET until = now() - interval '1 minute'")
				return count(t, d, "SELECT count(*) FROM river_job WHERE kind = 'dispensary_webhook' AND attempt > 0") > 1
			}, time.Minute, 20*time.Millisecond)
			other := receivertest.Accept(t, inbox)
			a := <-made
			assert.Equal(t, other.Key, a.Key)
			close(gate)
			a = <-made
			assert.Equal(t, webhook.ResultHandled, a.Result)
			assert.Equal(t, events.PatientCreated, a.Type)
			assert.Len(t, begun, 0, "it was handled once")
		})
	}
}
