package riverinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Open calls [Migrate], and starts an inbox that accepts and handles. The program closes the
// pool after the inbox. The pool needs three connections more than Work.Workers: one to listen,
// one to accept, and one for everything else. Open rejects a smaller one, and a schema in which
// another client of River works.
func Open(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	worker, err := engine.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	if c, err = c.withDefaults(pool); err != nil {
		return nil, err
	}
	if need := worker.Work().Workers + 3; int(pool.Config().MaxConns) < need {
		return nil, &api.ArgumentError{Field: "pool", Reason: fmt.Sprintf("has %d connections at most, and Open needs %d", pool.Config().MaxConns, need)}
	}
	if err := Migrate(ctx, pool, c.Schema); err != nil {
		return nil, err
	}
	i, err := New(ctx, pool, c)
	if err != nil {
		return nil, err
	}
	if err := i.start(); err != nil {
		return nil, errors.Join(err, i.Close(ctx))
	}
	return i, nil
}

// New makes an inbox that accepts, and handles nothing: other processes do, which have called
// Open. [Migrate] comes first: New fails with a [*SchemaError].
func New(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	c, err := c.withDefaults(pool)
	if err != nil {
		return nil, err
	}
	worker, err := engine.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	if c.Schema, err = schemaOf(ctx, pool, c.Schema); err != nil {
		return nil, err
	}
	if worker.Work().Retry.MaxAttempts >= math.MaxInt16 {
		return nil, &api.ArgumentError{Field: "riverinbox.Config.Work.Retry.MaxAttempts", Reason: fmt.Sprintf("is not less than %d, and River counts no further", math.MaxInt16)}
	}
	if err := checkSchema(ctx, pool, c.Schema); err != nil {
		return nil, err
	}
	i := &Inbox{
		config: c, worker: worker, pool: pool, names: namesOf(c.Schema), name: clientPrefix + rand.Text(),
		woken: make(chan struct{}, 1), life: engine.NewLifecycle(), ended: make(chan struct{}), others: others{},
	}
	if err := i.rejectStrangers(ctx); err != nil {
		return nil, err
	}
	i.alive = newAlive(c.TakeOver)
	i.accepts, i.outcomes = i.newAccepts(), i.newOutcomes()
	i.warn(cannotKeep, i.keep(ctx))
	i.loops.Go(func() { i.every(keepEvery, cannotKeep, i.keep) })
	if !c.PollOnly {
		i.loops.Go(i.announce)
	}
	return i, nil
}

// clientPrefix begins the names of the clients of inboxes.
const clientPrefix = "dispensary_"

// rejectStrangers fails if another client works in the schema: the leader of River's clients
// discards jobs whose kind it does not know, and deletes dead letters by its own settings.
func (i *Inbox) rejectStrangers(ctx context.Context) error {
	strange, err := one[bool](ctx, i, `SELECT EXISTS (SELECT FROM {s}.river_job WHERE kind < '{kind}' OR kind > '{kind}')
		OR EXISTS (SELECT FROM {s}.river_queue WHERE name <> '{queue}')
		OR EXISTS (SELECT FROM {s}.river_leader WHERE NOT starts_with(leader_id, '`+clientPrefix+`') AND expires_at > now())`)
	if err == nil && strange {
		err = &api.ArgumentError{Field: "riverinbox.Config.Schema", Reason: "has another client of River, and an inbox needs a schema of its own"}
	}
	return err
}

// How the client looks for jobs. It is told of new ones, and fetches at most every
// fetchCooldown.
const (
	fetchCooldown = 20 * time.Millisecond
	fetchPoll     = 250 * time.Millisecond
)

// completedJobs is how long River keeps jobs that are done. Before the next checkpoint of the
// database they are deleted at a tenth of the cost.
const completedJobs = time.Minute

// start makes the client of River and starts it.
func (i *Inbox) start() error {
	work := i.worker.Work()
	workers := river.NewWorkers()
	river.AddWorker(workers, &eventWorker{inbox: i})
	client, err := river.NewClient(riverpgxv5.New(i.pool), &river.Config{
		ID: i.name, Schema: i.config.Schema, Logger: work.Logger, PollOnly: i.config.PollOnly,
		Workers: workers, Queues: map[string]river.QueueConfig{queue: {MaxWorkers: work.Workers}},
		FetchCooldown: fetchCooldown, FetchPollInterval: fetchPoll,
		// Handlers have their own time, and processes that died are found by their heartbeat.
		JobTimeout: -1, RescueStuckJobsAfter: work.HandlerTimeout + time.Hour,
		// Dead letters stay until they are replayed or discarded.
		CompletedJobRetentionPeriod: completedJobs, CancelledJobRetentionPeriod: -1, DiscardedJobRetentionPeriod: -1,
		ReindexerIndexNames: []string{"river_job_kind", "river_job_pkey", "river_job_prioritized_fetching_index", "river_job_state_and_finalized_at_index", "river_job_unique_idx"},
	})
	if err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	i.client = client
	if err := i.beat(i.life.Context()); err != nil {
		return err
	}
	i.loops.Go(func() { i.every(i.config.TakeOver/6, "webhook inbox cannot say that it is alive", i.beat) })
	i.loops.Go(func() { i.every(i.config.sweepEvery, "webhook inbox cannot look after its events", i.sweep) })
	if err := client.Start(context.Background()); err != nil {
		return fmt.Errorf("riverinbox: starting River: %w", err)
	}
	return nil
}
