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
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// DefaultTakeOver is the default of [Config].TakeOver.
const DefaultTakeOver = 30 * time.Second

// Config is what an [Inbox] is made of. Work.Handle and Seal are required. All replicas should
// have the same.
type Config struct {
	// Work says how events are handled.
	Work webhook.Work

	// Seal seals the bodies of events. [seal.InsecurePlaintext] is the way to have them readable.
	Seal seal.AEAD

	// Schema is the PostgreSQL schema of the tables, those of River among them. No other client
	// of River may use it. Empty means the first schema of the search path. Letters, digits and
	// underscores, 46 at most.
	Schema string

	// TakeOver is how long a process may give no sign of life before others handle its events. 0
	// means [DefaultTakeOver]. Less than a second is refused. A process that cannot reach the
	// database ends the contexts of its handlers after two thirds of it.
	TakeOver time.Duration

	// PollOnly is for PgBouncer in transaction mode: nothing listens, and River looks for events
	// every quarter of a second.
	PollOnly bool

	// sweepEvery is for tests.
	sweepEvery time.Duration
}

// Open calls [Migrate], and starts an inbox that accepts and handles. The program closes the pool
// after the inbox. The pool needs three connections more than Work.Workers: one to listen, one to
// accept, and one for everything else. Open rejects a smaller one, and a schema in which another
// client of River works.
func Open(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	work, err := c.Work.WithDefaults()
	if err != nil {
		return nil, err
	}
	if need := work.Workers + 3; pool != nil && int(pool.Config().MaxConns) < need {
		return nil, &api.ArgumentError{Field: "pool", Reason: fmt.Sprintf("has %d connections at most, and Open needs %d", pool.Config().MaxConns, need)}
	}
	if err := Migrate(ctx, pool, c.Schema); err != nil {
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

// New makes an inbox that accepts, and handles nothing: other processes do, which have called
// Open. [Migrate] comes first: New fails with a [*SchemaError].
func New(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	worker, err := engine.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	c.TakeOver, c.sweepEvery = cmp.Or(c.TakeOver, DefaultTakeOver), cmp.Or(c.sweepEvery, sweepEvery)
	switch {
	case c.Seal == nil:
		return nil, &api.ArgumentError{Field: "riverinbox.Config.Seal", Reason: "is missing: bodies hold patient data"}
	case c.TakeOver < time.Second:
		return nil, &api.ArgumentError{Field: "riverinbox.Config.TakeOver", Reason: "is shorter than a second"}
	case worker.Work().Retry.MaxAttempts >= math.MaxInt16:
		return nil, &api.ArgumentError{Field: "riverinbox.Config.Work.Retry.MaxAttempts", Reason: "is too large for River, which counts to 32,767"}
	}
	if c.Schema, err = schemaOf(ctx, pool, c.Schema); err != nil {
		return nil, err
	}
	if err := checkSchema(ctx, pool, c.Schema); err != nil {
		return nil, err
	}
	i := &Inbox{
		config: c, worker: worker, pool: pool, names: namesOf(c.Schema), name: clientPrefix + rand.Text(),
		woken: make(chan struct{}, 1), life: engine.NewLifecycle(), ended: make(chan struct{}), others: others{}, alive: newAlive(c.TakeOver),
	}
	if err := i.rejectStrangers(ctx); err != nil {
		return nil, err
	}
	i.accepts, i.outcomes = i.newAccepts(), i.newOutcomes()
	i.warn(cannotKeep, i.keep(ctx))
	i.every(keepEvery, cannotKeep, i.keep)
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

// How the client of River looks for jobs, and how long it keeps those that are done: before the
// next checkpoint of the database they are deleted at a tenth of the cost.
const (
	fetchCooldown = 20 * time.Millisecond
	fetchPoll     = 250 * time.Millisecond
	completedJobs = time.Minute
)

// start makes the client of River and starts it.
func (i *Inbox) start(ctx context.Context) (err error) {
	work := i.worker.Work()
	config := &river.Config{
		ID: i.name, Schema: i.config.Schema, Logger: work.Logger, PollOnly: i.config.PollOnly, Workers: river.NewWorkers(),
		Queues:        map[string]river.QueueConfig{queue: {MaxWorkers: work.Workers}},
		FetchCooldown: fetchCooldown, FetchPollInterval: fetchPoll,
		// Handlers have their own time, and processes that died are found by their heartbeat.
		JobTimeout: -1, RescueStuckJobsAfter: work.HandlerTimeout + time.Hour,
		// Dead letters stay until they are replayed or discarded.
		CompletedJobRetentionPeriod: completedJobs, CancelledJobRetentionPeriod: -1, DiscardedJobRetentionPeriod: -1,
		ReindexerIndexNames: []string{
			"river_job_kind", "river_job_pkey", "river_job_prioritized_fetching_index", "river_job_state_and_finalized_at_index", "river_job_unique_idx",
		},
	}
	river.AddWorker(config.Workers, &eventWorker{inbox: i})
	client, err := river.NewClient(riverpgxv5.New(i.pool), config)
	if err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	if err := i.beat(ctx); err != nil { // before it fetches anything
		return err
	}
	i.every(i.config.TakeOver/6, "webhook inbox cannot say that it is alive", i.beat)
	i.every(i.config.sweepEvery, "webhook inbox cannot look after its events", i.sweep)
	if err := client.Start(context.Background()); err != nil {
		return fmt.Errorf("riverinbox: starting River: %w", err)
	}
	i.client = client
	return nil
}
