package riverinbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// count returns the number that a query finds.
func count(t *testing.T, d database, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, d.reader(t).QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// TestKeysAreKeptForRetention is about events that no day of the ledger is for: they do
// not say when they happened.
func TestKeysAreKeptForRetention(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, made := d.start(t, receivertest.Succeed, func(c *riverinbox.Config) {
		c.Work.Order, c.Work.Stale = webhook.ByObject, webhook.StaleReport
	})
	old, young := receivertest.NewDelivery(), receivertest.NewDelivery()
	old.CreatedAt, young.CreatedAt = time.Time{}, time.Time{}
	for _, e := range []webhook.Delivery{old, young} {
		_, err := inbox.Accept(t.Context(), e)
		require.NoError(t, err)
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
	receivertest.Accept(t, inbox)
	<-made
	d.keepPartitions(t, inbox)
	key := old.Key.String()
	age := func(days int) {
		t.Helper()
		d.exec(t, fmt.Sprintf("UPDATE dispensary_inbox SET due_at = now() - interval '%d days' WHERE key = '%s'", days, key))
		d.exec(t, fmt.Sprintf("UPDATE dispensary_inbox_newest SET noted_at = now() - interval '%d days'", days))
		d.keepPartitions(t, inbox)
		require.NoError(t, inbox.Purge(t.Context()))
	}
	age(30)
	receipt, err := inbox.Accept(t.Context(), old)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_newest"))
	age(32)
	assert.Empty(t, known(t, d, key))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox_newest"))
	receipt, err = inbox.Accept(t.Context(), young)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate)
}

// TestOutcomeIsNotedOnceTheDatabaseIsBack ends every connection while a handler
// runs, and keeps new ones out until it has ended.
func TestOutcomeIsNotedOnceTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, network := d.connect(t)
	config := d.config(t, func(context.Context, events.Event) error {
		network.cut()
		return nil
	})
	config.Lease = time.Minute
	made := receivertest.Observe(&config.Work)
	inbox := open(t, pool, config)
	receivertest.Accept(t, inbox)
	require.Eventually(t, network.wasRefused, time.Minute, time.Millisecond)
	_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
	require.Error(t, err)
	assert.NotContains(t, err.Error(), receivertest.Canary)
	network.resume()
	a := <-made
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, 1, a.Number)
}

// TestKeysThatCannotBeIndexed are refused before the database is asked; subjects
// are the program's own affair and only compared, so that they may be long.
func TestKeysThatCannotBeIndexed(t *testing.T) {
	t.Parallel()
	inbox, made := newDatabase(t).start(t, receivertest.Succeed, func(c *riverinbox.Config) {
		c.Work.Order = func(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
			return webhook.OrderingKey("long " + d.Key.EventID + incompressible(3000))
		}
	})
	event := receivertest.NewDelivery()
	event.Key.EventID = incompressible(3000)
	_, err := inbox.Accept(t.Context(), event)
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, "webhook.Delivery.Key", argument.Field)
	require.ErrorIs(t, err, webhook.ErrUnstorable)
	assert.NotContains(t, err.Error(), event.Key.EventID[:10])

	event.Key.EventID = incompressible(2500)
	event.Body = bytes.Replace(event.Body, []byte(`"pa_`), []byte(`"pa_`+incompressible(3000)), 1)
	_, err = inbox.Accept(t.Context(), event)
	require.NoError(t, err)
	a := <-made
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, event.Key, a.Key)
}

// incompressible is a text that PostgreSQL cannot make shorter.
func incompressible(length int) (text string) {
	for len(text) < length {
		text += rand.Text()
	}
	return text[:length]
}
