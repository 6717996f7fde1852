package sqlinbox

import (
	"database/sql"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// Crash stops an inbox as the end of its process would: it records nothing, releases the lock,
// and handlers have no further effect.
func (i *Inbox) Crash() {
	i.writer.Close()
	for _, release := range i.release {
		_ = release()
	}
	i.release = nil
}

// WithClock sets the clock of an inbox and the margin of its claims.
func (c Config) WithClock(now func() time.Time, margin time.Duration) Config {
	c.now, c.margin = now, margin
	return c
}

// WithPatience sets how long Close waits beyond its context.
func (c Config) WithPatience(d time.Duration) Config {
	c.patience = d
	return c
}

// Purge deletes old keys.
func (i *Inbox) Purge() error { return i.purge() }

// Pragma changes the connection of the writer.
func (i *Inbox) Pragma(t testing.TB, change string) {
	err := i.writer.do(t.Context(), func(x *tx) error {
		_, err := x.conn.ExecContext(t.Context(), "PRAGMA "+change)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Batch blocks the writer in a write until end is called. The write shares a transaction with
// the writes of others: queued waits until n of them are in the queue, and starts the
// transaction.
func (i *Inbox) Batch(t testing.TB) (queued func(n int), end func()) {
	first, second := make(chan struct{}), make(chan struct{})
	begun := make(chan struct{}, 2)
	for _, gate := range []chan struct{}{first, second} {
		// PostUrgent puts the second write in front of all other writes.
		i.writer.PostUrgent(&write{do: func(*tx) error {
			begun <- struct{}{}
			<-gate
			return nil
		}})
		if gate == first {
			<-begun
		}
	}
	queued = func(n int) {
		for i.writer.Waiting() < 1+n {
			runtime.Gosched()
		}
		close(first)
		<-begun
	}
	return queued, func() { close(second) }
}

// AwaitClaims waits until handlers have n events and the writer is idle.
func (i *Inbox) AwaitClaims(t testing.TB, n int) {
	for {
		s, err := i.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Running == n {
			return
		}
		runtime.Gosched()
	}
}

// CountTransactions counts the transactions of the writer from now on.
func (i *Inbox) CountTransactions(t testing.TB) func() int {
	var n atomic.Int64
	err := i.writer.do(t.Context(), func(*tx) error {
		committed := i.writer.hooks.committed
		i.writer.hooks.committed = func(t *tx) {
			n.Add(1)
			committed(t)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() int { return int(n.Load()) }
}

// FinishedPlan returns the plan of the query of Finished.
func (i *Inbox) FinishedPlan(t testing.TB) []string {
	return i.plan(t, finishedQuery, []any{`["us/sandbox/evt_1"]`})
}

// ListPlan returns the plan of the list query for a filter.
func (i *Inbox) ListPlan(t testing.TB, f engine.Filter) []string {
	query, args := table.Select(listed, f, engine.Page{Limit: 50})
	return i.plan(t, query, args)
}

// CountPlan returns the plan of the count query for a filter.
func (i *Inbox) CountPlan(t testing.TB, f engine.Filter) (steps []string) {
	_, _ = table.Count(f, 0, func(query string, args []any) ([]inboxkit.Group, error) {
		steps = i.plan(t, query, args)
		return nil, nil
	})
	return steps
}

func (i *Inbox) plan(t testing.TB, query string, args []any) (steps []string) {
	err := i.each(t.Context(), "EXPLAIN QUERY PLAN "+query, args, func(rows *sql.Rows) error {
		var id, parent, unused int
		var step string
		err := rows.Scan(&id, &parent, &unused, &step)
		steps = append(steps, step)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}
