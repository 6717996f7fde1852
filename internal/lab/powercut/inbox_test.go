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

// Progress of an event. All values except offered, replaying and discarding are promises.
const (
	offered    = "offered"    // Accept was called
	accepted   = "accepted"   // Accept has returned
	handled    = "handled"    // the outcome of its handler is recorded
	dead       = "dead"       // it is recorded as a dead letter
	replaying  = "replaying"  // Replay was called
	replayed   = "replayed"   // Replay has returned
	discarding = "discarding" // Discard was called
	discarded  = "discarded"  // Discard has returned
)

// told is the progress of the event with a key.
type told struct{ what, key string }

// inboxRun is a recorded run of an inbox. Its events are accepted, handled with and without an
// effect in the transaction of the inbox, repeated, turned into dead letters, replayed and
// discarded. Meanwhile the inbox is closed and reopened, and its write-ahead log is checkpointed.
type inboxRun struct {
	folder   string
	log      *powercut.Log
	ring     *seal.KeyRing
	open     func(path string, c sqlinbox.Config) (inbox *sqlinbox.Inbox, closeDB func() error, err error)
	repaired atomic.Bool // the handler no longer rejects events
}

const (
	inboxLives  = 4
	inboxEvents = 12 // per life
)

func inboxImages() int { return testsize.Of(1_000, 25_000) }

// number returns the number of the event with a key. It determines the outcomes of its handler.
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

// handle writes an effect in the transaction of the inbox for about every other event.
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

// record runs the inbox and records its log in r.log.
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

// openPlain opens an inbox like a program.
func openPlain(path string, c sqlinbox.Config) (*sqlinbox.Inbox, func() error, error) {
	inbox, err := sqlinbox.Open(path, c)
	return inbox, func() error { return nil }, err
}

func (r *inboxRun) accept(t *testing.T, inbox *sqlinbox.Inbox, n int) {
	d := delivery(n)
	for range 1 + n%3/2 { // every third event is sent twice
		r.log.Promise(told{offered, d.Key.String()})
		if _, err := inbox.Accept(t.Context(), d); assert.NoError(t, err) {
			r.log.Promise(told{accepted, d.Key.String()})
		}
	}
}

// revise replays half of the dead letters and discards the others.
func (r *inboxRun) revise(t *testing.T, inbox *sqlinbox.Inbox) {
	r.repaired.Store(true)
	letters, err := inbox.List(t.Context(), engine.Filter{States: []engine.State{engine.StateDead}}, engine.Page{Limit: 1000})
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

// ownTables opens the file for the program and creates the table of effects.
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

// check opens the inbox of an image, waits until it has handled the remaining events, and returns
// the broken promises.
func (r *inboxRun) check(folder string, image powercut.Image) (broken []string, err error) {
	path := filepath.Join(folder, "inbox.db")
	again := map[string]int{} // number of handlings after the cut, by key
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
			return nil, errors.New("the inbox does not handle its remaining events")
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

// found is the content of a database.
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

// The states of a row after all events are handled.
const (
	stateDead = 5
	stateDone = 6
)

// compare returns the broken promises.
func (f found) compare(promises []any) (broken []string) {
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	if f.integrity != "ok" {
		say("integrity_check: %s", f.integrity)
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
			{told[accepted] && !there, "was accepted but is missing"},
			{told[handled] && f.again[key] > 0, "was handled but is handled again"},
			{f.again[key] > 1, "is handled twice after one cut"},
			{untouched && f.again[key] > 0, "was a dead letter but is handled again"},
			{untouched && !told[discarding] && state != stateDead, "was a dead letter but is no longer"},
			{told[replayed] && state != stateDone, "was replayed but is not handled"},
			{told[discarded] && state != stateDone, "was discarded but still exists"},
			{f.effects[key] != effects, fmt.Sprintf("has had its effect %d times instead of %d times", f.effects[key], effects)},
		} {
			if b.is {
				say("%s %s", key, b.what)
			}
		}
	}
	return broken
}

// TestInbox checks that the inbox opens after a power cut at any moment. It must contain every
// accepted event, must not handle a handled event again, and must contain each effect of a
// transaction once.
func TestInbox(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	r := &inboxRun{ring: receivertest.KeyRing(t), open: openPlain}
	r.record(t)
	result := cutAll(t, r.log, inboxImages(), r.check)
	require.Empty(t, result.broken)
	t.Log(result)
}
