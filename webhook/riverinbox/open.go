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

// Open calls [Migrate] and [MigrateRiver], and starts an inbox with a new River client, which
// Close stops. The program closes the pool after the inbox. The pool needs a connection for each
// worker whose handler uses one, one to listen, one to accept and one to keep the leases. Open
// rejects a pool of fewer than four.
func Open(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	if err := Migrate(ctx, pool, c.Tables); err != nil {
		return nil, err
	}
	if err := MigrateRiver(ctx, pool, c.Tables); err != nil {
		return nil, err
	}
	if pool.Config().MaxConns < minConns {
		return nil, &api.ArgumentError{Field: "pool", Reason: fmt.Sprintf("has %d connections at most, and Open needs %d", pool.Config().MaxConns, minConns)}
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

// minConns are for the listener, the writer, the leases, and one worker.
const minConns = 4

// fetchCooldown is how long the client of Open waits between fetches. River's tenth of a
// second would let four workers handle forty events a second. Many workers fetch many jobs at
// once, and the fewer fetches there are the better: each goes through all that was done and
// could not be vacuumed since. A job that comes after a pause does not wait. A process begins a
// thousand jobs a second at most, and more with more than 500 workers.
func fetchCooldown(workers int) time.Duration {
	return min(max(10*time.Millisecond, time.Duration(workers)*time.Millisecond), 500*time.Millisecond)
}

// completedJobs is how long River keeps jobs that are done. A day of it, which River
// would keep, is many times what the inbox holds.
const completedJobs = 10 * time.Minute

// start makes the River client and starts it.
func (i *Inbox) start() error {
	config := &river.Config{
		Schema:                      i.config.Tables.River,
		Logger:                      i.worker.Work().Logger,
		FetchCooldown:               fetchCooldown(i.worker.Work().Workers),
		RescueStuckJobsAfter:        max(i.runTimeout(), river.JobTimeoutDefault),
		CompletedJobRetentionPeriod: completedJobs,
	}
	if i.config.River != nil {
		i.config.River(config)
	}
	if err := i.AddTo(config); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(i.pool), config)
	if err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	if err := client.Start(context.Background()); err != nil {
		return fmt.Errorf("riverinbox: starting River: %w", err)
	}
	i.works = client
	return nil
}

// New makes an inbox that accepts, and whose events are handled by clients that
// it was added to: see [Inbox.AddTo]. A process that only accepts adds it to
// none. [Migrate] and [MigrateRiver] come first: it fails with a [*SchemaError].
func New(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	c, err := c.withDefaults(pool)
	if err != nil {
		return nil, err
	}
	worker, err := engine.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	if err := checkSchema(ctx, pool, c.Tables); err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: c.Tables.River,
		Logger: worker.Work().Logger,
		// How often an insert is announced at most. An event that comes between
		// two announcements waits for River to poll.
		FetchCooldown: river.FetchCooldownMin,
	})
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	i := &Inbox{
		config: c, worker: worker, pool: pool, client: client, names: c.Tables.names(), name: rand.Text()[:13],
		jobs: river.InsertOpts{Queue: Queue, MaxAttempts: min(worker.Work().Retry.MaxAttempts, math.MaxInt16)},
		life: engine.NewLifecycle(), ended: make(chan struct{}),
	}
	i.turns = make(chan struct{}, max(2, pool.Config().MaxConns/3))
	i.writer, i.leases = newWriter(i), newLeases(i)
	i.claiming, i.recording = newGroupCommit(i), newGroupCommit(i)
	i.loops.Go(func() { i.leases.keep(i.ended) })
	i.loops.Go(i.watch)
	i.loops.Go(i.keep)
	i.loops.Go(i.retain)
	return i, nil
}

// AddTo registers the workers of the inbox with the configuration of a River
// client, and its queue with Work.Workers workers if the program has not
// configured it. The client is the program's to start and to stop: stop it
// before the inbox is closed, and give it a RescueStuckJobsAfter if an hour is too
// long for jobs of a process that died to be shown as running. Their events do
// not wait for that. With many events a second give it a CompletedJobRetentionPeriod of
// minutes, as [Open] does: each event leaves a job that is done.
func (i *Inbox) AddTo(config *river.Config) error {
	if config.Schema != i.config.Tables.River {
		return &api.ArgumentError{Field: "config.Schema", Reason: fmt.Sprintf("is %q, and the inbox has its jobs in %q", config.Schema, i.config.Tables.River)}
	}
	if config.Workers == nil {
		config.Workers = river.NewWorkers()
	}
	if err := river.AddWorkerSafely(config.Workers, &jobWorker{inbox: i}); err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	if config.Queues == nil {
		config.Queues = map[string]river.QueueConfig{}
	}
	if _, ok := config.Queues[Queue]; !ok {
		config.Queues[Queue] = river.QueueConfig{MaxWorkers: i.worker.Work().Workers}
	}
	return nil
}

// Close implements [engine.Engine]. Like that of sqlinbox it returns at the latest a
// few seconds after the end of ctx, with its error if the database does not answer.
func (i *Inbox) Close(ctx context.Context) error {
	return i.life.Close(ctx, func() {
		if i.works != nil {
			_ = i.works.Stop(context.Background()) // waits for its jobs, and cannot fail without a context that ends
		}
	}, func() error {
		close(i.ended)
		i.loops.Wait()
		i.claiming.close()
		i.recording.close()
		i.writer.close()
		return nil
	})
}
