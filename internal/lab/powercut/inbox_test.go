//go:build unix

package powercut_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/lab/powercut"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// What is known of an event. All but offered, replaying and discarding are promises.
const (
	offered    = "offered"    // to the inbox, which has not answered yet
	accepted   = "accepted"   // Accept has returned
	handled    = "handled"    // the outcome of its handler has been recorded
	dead       = "dead"       // it has been recorded as a dead letter
	replaying  = "replaying"  // Replay has been called
	replayed   = "replayed"   // and has returned
	discarding = "discarding" // Discard has been called
	discarded  = "discarded"  // and has returned
)

// told is one of these, of the event with a key.
type told struct{ what, key string }

// inboxRun is what is recorded of an inbox: events that are accepted, handled with and
// without an effect in the transaction of the inbox, repeated, given up, replayed and
// discarded, while the inbox is closed and opened again and its log is brought into the
// file.
type inboxRun struct {
	folder   string
	log      *powercut.Log
	ring     *seal.KeyRing
	open     func(path string, c sqlinbox.Config) (inbox *sqlinbox.Inbox, closeDB func() error, err error)
	repaired atomic.Bool // dead letters are handled from now on
}

const (
	inboxLives  = 4
	inboxEvents = 12 // in each
)

func inboxImages() int { return testsize.Of(2_200, 25_000) }

// number is that of the event with a key, which says what becomes of it.
func number(key webhook.Key) (n int) {
	_, _ = fmt.Sscanf(key.EventID, "evt_%d", &n)
	return n
}

func isPoison(key webhook.Key) bool { return number(key)%6 == 1 }
func fails(key webhook.Key) bool    { return number(key)%4 == 2 }

func delivery(n int) webhook.Delivery {
	d := receivertest.NewDelivery()
	d.Key.EventID, d.Body = fmt.Sprint("evt_", n), receivertest.Body(n, "in_1")
	return d
}

// handle has an effect in the transaction of the inbox for every other event.
func handle(ctx context.Context) error {
	key := webhook.HandlingFrom(ctx).Key.String()
	if !receivertest.HasEffect(key) {
		return nil
	}
	return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (key) VALUES (?)", key)
		return err
	})
}

func (r *inboxRun) config() sqlinbox.Config {
	c := sqlinbox.Config{Seal: r.ring, Work: webhook.Work{
		Workers: 4, Order: webhook.ByObject, Retry: webhook.RetryPolicy{BackOff: time.Microsecond, MaxBackOff: time.Microsecond},
		Handle: func(ctx context.Context, _ events.Event) error {
			h := webhook.HandlingFrom(ctx)
			switch {
			case isPoison(h.Key) && !r.repaired.Load():
				return webhook.Permanent(errors.New("poison"))
			case fails(h.Key) && h.Attempt == 1:
				return errors.New("not yet")
			}
			return handle(ctx)
		},
	}}
	c.Work.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) {
		switch a.Result {
		case webhook.ResultHandled:
			r.log.Promise(told{handled, a.Key.String()})
		case webhook.ResultDead:
			r.log.Promise(told{dead, a.Key.String()})
		}
	}
	return c
}

// record returns the log of a run.
func (r *inboxRun) record(t *testing.T) {
	r.folder = t.TempDir()
	path := filepath.Join(r.folder, "inbox.db")
	r.log = powercut.Record(r.folder)
	defer powercut.Stop(r.folder)
	for life := range inboxLives {
		own, err := ownTables(path)
		require.NoError(t, err)
		inbox, closeDB, err := r.open(path, r.config())
		require.NoError(t, err)
		var senders sync.WaitGroup
		for sender := range 4 {
			senders.Go(func() {
				for n := sender; n < inboxEvents; n += 4 {
					r.accept(t, inbox, life*inboxEvents+n)
					if n == inboxEvents/2 {
						_, err := own.ExecContext(t.Context(), "PRAGMA wal_checkpoint(PASSIVE)")
						assert.NoError(t, err)
					}
				}
			})
		}
		senders.Wait()
		if life == inboxLives-1 {
			r.revise(t, inbox)
		}
		require.NoError(t, own.Close())
		require.NoError(t, inbox.Close(context.Background()))
		require.NoError(t, closeDB())
	}
}

// openPlain opens an inbox as programs do.
func openPlain(path string, c sqlinbox.Config) (*sqlinbox.Inbox, func() error, error) {
	inbox, err := sqlinbox.Open(path, c)
	return inbox, func() error { return nil }, err
}

func (r *inboxRun) accept(t *testing.T, inbox *sqlinbox.Inbox, n int) {
	d := delivery(n)
	for range 1 + n%3/2 { // one in three is sent twice
		r.log.Promise(told{offered, d.Key.String()})
		if _, err := inbox.Accept(t.Context(), d); assert.NoError(t, err) {
			r.log.Promise(told{accepted, d.Key.String()})
		}
	}
}

// revise replays half of the dead letters and discards the others.
func (r *inboxRun) revise(t *testing.T, inbox *sqlinbox.Inbox) {
	r.repaired.Store(true)
	letters, err := inbox.List(t.Context(), engine.Filter{States: []engine.State{engine.StateDead}}, engine.Position{}, 1000)
	require.NoError(t, err)
	require.NotEmpty(t, letters)
	for n, letter := range letters {
		revise, before, after := inbox.Replay, replaying, replayed
		if n%2 == 1 {
			revise, before, after = inbox.Discard, discarding, discarded
		}
		r.log.Promise(told{before, letter.Key.String()})
		n, err := revise(t.Context(), engine.Filter{Keys: []webhook.Key{letter.Key}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		r.log.Promise(told{after, letter.Key.String()})
	}
}

// ownTables opens the file for the program, and makes the table of the effects.
func ownTables(path string) (*sql.DB, error) {
	dsn, err := sqlinbox.DSN(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(context.Background(), "CREATE TABLE IF NOT EXISTS effects (key TEXT NOT NULL)")
	return db, err
}

// check opens the inbox that is found after a cut, has it work off what is left, and
// returns what was promised and is not so.
func (r *inboxRun) check(folder string, image powercut.Image) (broken []string, err error) {
	path := filepath.Join(folder, "inbox.db")
	again := map[string]int{} // how often the inbox handles an event now
	var mu sync.Mutex
	made := make(chan struct{}, 1000)
	c := sqlinbox.Config{Seal: r.ring, Work: webhook.Work{Order: webhook.ByObject, Handle: func(ctx context.Context, _ events.Event) error {
		mu.Lock()
		again[webhook.HandlingFrom(ctx).Key.String()]++
		mu.Unlock()
		return handle(ctx)
	}}}
	c.Work.Observer.AttemptEnd = func(context.Context, webhook.Attempt) { made <- struct{}{} }
	db, err := ownTables(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := sqlinbox.Migrate(context.Background(), db); err != nil {
		return nil, err
	}
	inbox, err := sqlinbox.New(db, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, inbox.Close(context.Background())) }()
	for {
		stats, err := inbox.Stats(context.Background())
		if err != nil {
			return nil, err
		}
		if stats.Waiting+stats.Running == 0 {
			break
		}
		select {
		case <-made:
		case <-time.After(time.Minute):
			return nil, errors.New("events are left that nothing handles")
		}
	}
	found, err := read(db)
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	found.again = again
	return found.compare(image.Promises), nil
}

// found is what is in a database.
type found struct {
	integrity string
	states    map[string]int
	effects   map[string]int
	again     map[string]int
}

func read(db *sql.DB) (f found, err error) {
	f.states, f.effects = map[string]int{}, map[string]int{}
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&f.integrity); err != nil {
		return f, err
	}
	for query, into := range map[string]map[string]int{
		"SELECT key, state FROM dispensary_inbox":        f.states,
		"SELECT key, count(*) FROM effects GROUP BY key": f.effects,
	} {
		rows, err := db.Query(query)
		if err != nil {
			return f, err
		}
		for rows.Next() {
			var key string
			var n int
			if err := rows.Scan(&key, &n); err != nil {
				return f, err
			}
			into[key] = n
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return f, err
		}
	}
	return f, nil
}

// The states of a row, once all has been worked off.
const (
	stateDead = 5
	stateDone = 6
)

// compare returns what was promised and is not so.
func (f found) compare(promises []any) (broken []string) {
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	if f.integrity != "ok" {
		say("integrity_check says %s", f.integrity)
	}
	was := map[string]map[string]bool{}
	for _, p := range promises {
		p := p.(told)
		if was[p.key] == nil {
			was[p.key] = map[string]bool{}
		}
		was[p.key][p.what] = true
	}
	for key := range f.states {
		if was[key] == nil {
			say("%s was never offered", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		told, state, there := was[key], f.states[key], f.states[key] != 0
		untouched := told[dead] && !told[replaying]
		effects := 0
		if receivertest.HasEffect(key) && state == stateDone && !told[discarding] {
			effects = 1
		}
		for _, b := range []struct {
			is   bool
			what string
		}{
			{told[accepted] && !there, "was accepted and is not there"},
			{told[handled] && f.again[key] > 0, "was handled and is handled again"},
			{f.again[key] > 1, "is handled twice after one cut"},
			{untouched && f.again[key] > 0, "was dead and is handled again"},
			{untouched && !told[discarding] && state != stateDead, "was dead and is not any more"},
			{told[replayed] && state != stateDone, "was replayed and is not handled"},
			{told[discarded] && state != stateDone, "was discarded and is there"},
			{f.effects[key] != effects, fmt.Sprintf("has had its effect %d times and not %d times", f.effects[key], effects)},
		} {
			if b.is {
				say("%s %s", key, b.what)
			}
		}
	}
	return broken
}

// TestInbox holds that after a loss of power at any moment the inbox opens, has every event
// that was accepted, handles none again that was recorded as handled, and has had every
// effect of a transaction once.
func TestInbox(t *testing.T) {
	t.Parallel()
	r := &inboxRun{ring: receivertest.KeyRing(t), open: openPlain}
	r.record(t)
	result := cutAll(t, r.log, inboxImages(), r.check)
	require.Empty(t, result.broken)
	t.Log(result)
}
