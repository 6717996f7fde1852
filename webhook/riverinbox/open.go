package riverinbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// Open calls [Migrate] and starts an inbox. The pool must allow three connections more than
// Work.Workers: one to listen, one to accept and one for other statements. Close the pool
// after the inbox. Open rejects a smaller pool and a schema with another client of River.
func Open(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	work, err := c.Work.WithDefaults()
	if err != nil {
		return nil, err
	}
	if need := work.Workers + 3; pool != nil && int(pool.Config().MaxConns) < need {
		return nil, &api.ArgumentError{Field: "pool", Reason: fmt.Sprintf("allows %d connections, but Open needs %d", pool.Config().MaxConns, need)}
	}
	if err := migrate(ctx, pool, c.Schema, cmp.Or(c.script, script)); err != nil {
		return nil, err
	}
	i, err := New(ctx, pool, c)
	if err != nil {
		return nil, err
	}
	if err := i.start(ctx); err != nil {
		return nil, errors.Join(err, i.Close(ctx))
	}
	return i, nil
}

// New returns an inbox for a process that only accepts events. Other processes handle them with
// Open. New fails with a [*api.SchemaError] before [Migrate] of this release.
func New(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	worker, err := inboxkit.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	c.TakeOver = cmp.Or(c.TakeOver, 30*time.Second)
	c.sweepEvery = cmp.Or(c.sweepEvery, min(sweepEvery, c.TakeOver/5)) // others.dead needs five checks
	switch {
	case c.Seal == nil:
		return nil, &api.ArgumentError{Field: "riverinbox.Config.Seal", Reason: "is required, because bodies contain patient data"}
	case c.TakeOver < time.Second:
		return nil, &api.ArgumentError{Field: "riverinbox.Config.TakeOver", Reason: "must be at least 1s"}
	case worker.Work().Retry.MaxAttempts >= math.MaxInt16:
		return nil, &api.ArgumentError{Field: "riverinbox.Config.Work.Retry.MaxAttempts", Reason: "is too large for River: it must be below 32,767"}
	}
	if c.Schema, err = schemaOf(pool, c.Schema); err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(scriptOf(c.Schema, cmp.Or(c.script, script)).Check(ctx, db), db.Close()); err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	i := newInbox(pool, c, worker)
	strange, err := i.heart.strangers(ctx)
	if err == nil && strange {
		err = &api.ArgumentError{Field: "riverinbox.Config.Schema", Reason: "has another client of River: use a separate schema for the inbox"}
	}
	if err != nil {
		return nil, err
	}
	i.accepts.batches = newGroup(func(a *accept) int { return len(a.args) }, i.accepts.storeAll)
	i.attempts.begins, i.attempts.outcomes.batches = newGroup(nil, i.attempts.lookUp), newGroup(nil, i.attempts.outcomes.recordAll)
	i.every(keepEvery, "webhook inbox cannot delete old keys", i.ledger.purge)
	i.loops.Go(func() { i.bell.run(i.ended) })
	return i, nil
}

// newInbox connects the parts of an inbox. It starts none of them.
func newInbox(pool *pgxpool.Pool, c Config, worker *inboxkit.Worker) *Inbox {
	work, life := worker.Work(), inboxkit.NewLifecycle()
	db := &database{pool: pool, names: namesOf(c.Schema), logger: work.Logger, life: life}
	bell := &bell{database: db, pollOnly: c.PollOnly, rung: make(chan struct{}, 1)}
	heart := &heart{
		database: db, name: clientPrefix + rand.Text(), takeOver: c.TakeOver, maxBackOff: work.Retry.MaxBackOff, bell: bell,
		alive: newAlive(life.Context(), c.TakeOver),
	}
	outcomes := &outcomes{database: db, worker: worker, seal: c.Seal, heart: heart, bell: bell}
	return &Inbox{
		config: c, worker: worker, db: db, life: life, ended: make(chan struct{}), bell: bell, heart: heart, ledger: &ledger{db},
		accepts:  &accepts{database: db, worker: worker, seal: c.Seal, bell: bell},
		attempts: &attempts{database: db, worker: worker, seal: c.Seal, bell: bell, heart: heart, outcomes: outcomes},
	}
}

// start starts a client of River, or makes it wait for Work.Start.
func (i *Inbox) start(ctx context.Context) (err error) {
	work := i.worker.Work()
	config := &river.Config{
		ID: i.heart.name, Schema: i.config.Schema, Logger: work.Logger, PollOnly: i.config.PollOnly, Workers: river.NewWorkers(),
		Queues:        map[string]river.QueueConfig{queue: {MaxWorkers: work.Workers}},
		FetchCooldown: 20 * time.Millisecond, FetchPollInterval: 250 * time.Millisecond,
		JobTimeout: -1, // River must not rescue jobs by the clock of its leader
		// Dead letters stay. Deleting a completed job before the next checkpoint costs a tenth.
		CancelledJobRetentionPeriod: -1, DiscardedJobRetentionPeriod: -1, CompletedJobRetentionPeriod: time.Minute,
		ReindexerIndexNames: []string{
			"river_job_kind", "river_job_pkey", "river_job_prioritized_fetching_index", "river_job_state_and_finalized_at_index", "river_job_unique_idx",
		},
	}
	river.AddWorker(config.Workers, &eventWorker{attempts: i.attempts})
	i.client, err = river.NewClient(riverpgxv5.New(i.db.pool), config)
	if err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	select {
	case <-work.Start:
		return i.fetch(ctx)
	default:
	}
	i.loops.Go(func() {
		if !i.worker.WaitForStart(i.life.Stopping()) {
			return
		}
		for err := i.fetch(i.life.Context()); err != nil; err = i.fetch(i.life.Context()) {
			i.db.warn("webhook inbox cannot start to handle events", err)
			select {
			case <-time.After(time.Second):
			case <-i.life.Stopping():
			}
		}
	})
	return nil
}

// fetch starts to fetch events, unless Close was called.
func (i *Inbox) fetch(ctx context.Context) error {
	i.starting.Lock()
	defer i.starting.Unlock()
	if i.life.Stopped() {
		return nil
	}
	if err := i.heart.live(ctx); err != nil { // before the first fetch
		return err
	}
	if err := i.client.Start(context.Background()); err != nil {
		return fmt.Errorf("riverinbox: start River: %w", err)
	}
	i.every(i.config.TakeOver/6, cannotBeat, i.heart.beat)
	i.every(i.config.sweepEvery, "webhook inbox cannot release abandoned events", i.heart.sweep)
	return nil
}
