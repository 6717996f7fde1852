package riverinbox_test

import (
	"bytes"
	"context"
	"errors"
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
		return count(t, d, "SELECT count(*) FROM dispensary_inbox WHERE type = $1 AND due_at > $2", string(events.PatientCreated), now.Add(2*config.Lease)) == 1
	}, 2*time.Minute, 20*time.Millisecond)
	close(gate)
	for range 2 {
		a := <-made
		assert.Equal(t, webhook.ResultHandled, a.Result)
		assert.Equal(t, 1, a.Number)
	}
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM effects"))
}

// TestAcceptTxIsPartOfTheTransaction accepts in transactions of the program: one
// that is rolled back, and one that is committed.
func TestAcceptTxIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, made := d.start(t, receivertest.Succeed, nil)
	pool := d.pool(t)
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	event := receivertest.NewDelivery()
	no := errors.New("no")
	for _, end := range []error{no, nil} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for _, want := range []bool{false, true} {
				receipt, err := inbox.AcceptTx(t.Context(), tx, event)
				require.NoError(t, err)
				assert.Equal(t, want, receipt.Duplicate)
			}
			_, err := tx.Exec(t.Context(), "INSERT INTO effects (key) VALUES ('mine')")
			return errors.Join(err, end)
		})
		require.ErrorIs(t, err, end)
		stored := 0
		if end == nil {
			stored = 1
		}
		for _, table := range []string{"effects", "dispensary_inbox", "river_job"} {
			assert.Equal(t, stored, count(t, d, "SELECT count(*) FROM "+table), table)
		}
	}
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	receipt, err := inbox.Accept(t.Context(), event)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate)

	require.NoError(t, inbox.Close(t.Context()))
	require.ErrorIs(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := inbox.AcceptTx(t.Context(), tx, receivertest.NewDelivery())
		return err
	}), webhook.ErrInboxClosed)
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
