package riverinbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
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

// observed returns a channel with every attempt, and fills it.
func observed(c *riverinbox.Config) <-chan webhook.Attempt {
	made := make(chan webhook.Attempt, 1000)
	c.Work.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { made <- a }
	return made
}

// accept gives a new event to an inbox.
func accept(t *testing.T, inbox webhook.Inbox) webhook.Delivery {
	t.Helper()
	d := receivertest.NewDelivery()
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	require.False(t, receipt.Duplicate)
	return d
}

// count returns the number that a query finds.
func count(t *testing.T, d database, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, d.reader(t).QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

func TestKeysAreKeptForRetention(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.config(t, receivertest.Succeed)
	config.Work.Order, config.Work.Stale = webhook.ByObject, webhook.StaleReport
	made := observed(&config)
	inbox := open(t, d.pool(t), config)
	old, young := accept(t, inbox), accept(t, inbox)
	<-made
	<-made
	key, err := old.Key.MarshalText()
	require.NoError(t, err)
	age := func(days int) {
		t.Helper()
		d.exec(t, fmt.Sprintf("UPDATE dispensary_inbox SET due_at = now() - interval '%d days' WHERE key = '%s'", days, key))
		d.exec(t, fmt.Sprintf("UPDATE dispensary_inbox_newest SET noted_at = now() - interval '%d days' WHERE object = (SELECT object FROM dispensary_inbox WHERE key = '%s')", days, key))
		require.NoError(t, inbox.Purge(t.Context()))
	}
	age(30)
	receipt, err := inbox.Accept(t.Context(), old)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate)
	age(32)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox"))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_newest"))
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
	made := observed(&config)
	inbox := open(t, pool, config)
	accept(t, inbox)
	require.Eventually(t, network.wasRefused, time.Minute, time.Millisecond)
	_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
	require.Error(t, err)
	assert.NotContains(t, err.Error(), receivertest.Canary)
	network.resume()
	a := <-made
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, 1, a.Number)
}

// TestLogsAndErrorsTellNothing pumps marked data through every outcome, with
// River's own log in the same place.
func TestLogsAndErrorsTellNothing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var mu sync.Mutex
	var out bytes.Buffer
	config := d.config(t, func(_ context.Context, e events.Event) error {
		if e.ID[len(e.ID)-1]%2 == 0 {
			panic(receivertest.Canary)
		}
		return fmt.Errorf("no such patient: %s", receivertest.Canary)
	})
	config.Work.Logger = slog.New(slog.NewJSONHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(b)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	config.Work.Retry = webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond}
	made := observed(&config)
	inbox, err := riverinbox.Open(t.Context(), d.pool(t), config)
	require.NoError(t, err)
	for range 4 {
		accept(t, inbox)
		<-made
		<-made
	}
	for letter, err := range inbox.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Contains(t, string(letter.Body), receivertest.Canary, "the letter has it, for those who ask")
		mu.Lock()
		fmt.Fprintf(&out, "%v %+v %#v %s\n", letter, letter, letter, letter.Reason)
		mu.Unlock()
	}
	fmt.Fprintf(&out, "%v %+v %#v", inbox, inbox, inbox)
	require.NoError(t, inbox.Close(t.Context()))
	assert.NotContains(t, out.String(), receivertest.Canary)
	assert.Contains(t, out.String(), `"outcome":"dead"`)
	assert.Contains(t, out.String(), "River client started", "River's log is there too")
	assert.NotContains(t, string(dump(t, d)), receivertest.Canary)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestKeysThatCannotBeIndexed are refused before the database is asked; subjects
// are the program's own affair and only compared, so that they may be long.
func TestKeysThatCannotBeIndexed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.config(t, receivertest.Succeed)
	config.Work.Order = func(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
		return webhook.OrderingKey("long " + d.Key.EventID + incompressible(3000))
	}
	made := observed(&config)
	inbox := open(t, d.pool(t), config)
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
