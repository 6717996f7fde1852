package riverinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Inbox is a [engine.Engine] on PostgreSQL and River.
type Inbox struct {
	config Config
	worker *engine.Worker
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // inserts jobs
	works  *river.Client[pgx.Tx] // works them, if the inbox owns one
	names  *strings.Replacer
	jobs   river.InsertOpts
	writer *writer
	leases *leases

	name   string // of this process, in claims
	claims atomic.Int64

	ctx    context.Context // of all handlers
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu          sync.Mutex
	reconcilers map[string]*reconcile.Reconciler
	stopping    chan struct{} // closed first of all
	ended       chan struct{} // closed once nothing runs
	tasks       sync.WaitGroup
	closing     sync.Once
}

var _ interface {
	engine.Engine
	reconcile.Inbox
} = (*Inbox)(nil)

// Open brings the tables of inbox and River up to date, and starts an inbox with
// a River client of its own, which Close stops. The program closes the pool after
// the inbox. It needs a connection for each worker whose handler uses one, and
// some more: one listens, one accepts, one keeps the leases. Fewer than four are
// refused.
func Open(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	if err := Migrate(ctx, pool, c.Tables); err != nil {
		return nil, err
	}
	if err := MigrateRiver(ctx, pool, c.Tables); err != nil {
		return nil, err
	}
	if pool.Config().MaxConns < minConns {
		return nil, fmt.Errorf("riverinbox: the pool has %d connections at most, and Open needs %d", pool.Config().MaxConns, minConns)
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

// fetchCooldown is how long the client of Open waits between fetches. River's
// tenth of a second would let four workers handle forty events a second.
const fetchCooldown = 10 * time.Millisecond

// start makes the River client and starts it.
func (i *Inbox) start() error {
	config := &river.Config{
		Schema:               i.config.Tables.River,
		Logger:               i.worker.Work().Logger,
		FetchCooldown:        fetchCooldown,
		RescueStuckJobsAfter: max(i.runTimeout(), river.JobTimeoutDefault),
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
// none. [Migrate] and [MigrateRiver] come first; it fails with [ErrSchema].
func New(ctx context.Context, pool *pgxpool.Pool, c Config) (*Inbox, error) {
	c, err := c.withDefaults(pool)
	if err != nil {
		return nil, err
	}
	c.Work.Handle = afterwards(c.Work.Handle, c.Work.Logger)
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
		config: c, worker: worker, pool: pool, client: client, names: c.Tables.names(), name: rand.Text(),
		jobs:     river.InsertOpts{Queue: c.Queue, MaxAttempts: min(worker.Work().Retry.MaxAttempts, math.MaxInt16)},
		stopping: make(chan struct{}), ended: make(chan struct{}), reconcilers: map[string]*reconcile.Reconciler{},
	}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.writer, i.leases = newWriter(i), newLeases(i)
	i.loops.Go(func() { i.leases.keep(i.ended) })
	i.loops.Go(i.watch)
	i.loops.Go(i.retain)
	return i, nil
}

// Client is the River client of an inbox that [Open] made, which works jobs of the
// program's own too where [Config.River] says so. It is nil for one of [New].
func (i *Inbox) Client() *river.Client[pgx.Tx] { return i.works }

// AddTo registers the workers of the inbox with the configuration of a River
// client, and its queue with Work.Workers workers if the program has not
// configured it. The client is the program's to start and to stop: stop it
// before the inbox is closed, and give it a RescueStuckJobsAfter if an hour is too
// long for jobs of a process that died to be shown as running. Their events do
// not wait for that.
func (i *Inbox) AddTo(config *river.Config) error {
	if config.Schema != i.config.Tables.River {
		return fmt.Errorf("riverinbox: the client has its tables in schema %q and the inbox its jobs in %q", config.Schema, i.config.Tables.River)
	}
	if config.Workers == nil {
		config.Workers = river.NewWorkers()
	}
	if err := errors.Join(
		river.AddWorkerSafely(config.Workers, &jobWorker{inbox: i}),
		river.AddWorkerSafely(config.Workers, &reconcileWorker{inbox: i}),
	); err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	if config.Queues == nil {
		config.Queues = map[string]river.QueueConfig{}
	}
	for queue, workers := range map[string]int{i.config.Queue: i.worker.Work().Workers, i.reconcileQueue(): 1} {
		if _, ok := config.Queues[queue]; !ok {
			config.Queues[queue] = river.QueueConfig{MaxWorkers: workers}
		}
	}
	return nil
}

// begin counts a job that is being worked; false means that it is over.
func (i *Inbox) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped() {
		return false
	}
	i.tasks.Add(1)
	return true
}

// Close implements [engine.Engine].
func (i *Inbox) Close(ctx context.Context) error {
	i.closing.Do(func() {
		i.mu.Lock()
		close(i.stopping)
		i.mu.Unlock()
		i.finish(ctx)
		i.cancel()
		close(i.ended)
		i.loops.Wait()
		i.writer.close()
	})
	return nil
}

// patience is how long a handler may take to stop once it has been told to.
const patience = 2 * time.Second

// finish waits for the handlers that run. When ctx ends they are told to stop,
// and what does not is left to the end of its lease.
func (i *Inbox) finish(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if i.works != nil {
			_ = i.works.Stop(context.Background()) // waits for its jobs, and cannot fail without a context that ends
		}
		i.tasks.Wait()
	}()
	select {
	case <-ended:
		return
	case <-ctx.Done():
		i.cancel()
	}
	select {
	case <-ended:
	case <-time.After(patience):
	}
}

// stopped reports that Close has been called.
func (i *Inbox) stopped() bool {
	select {
	case <-i.stopping:
		return true
	default:
		return false
	}
}

// sql puts the names of the tables into a statement.
func (i *Inbox) sql(statement string) string { return i.names.Replace(statement) }

// newToken returns a text that no other claim has.
func (i *Inbox) newToken() string { return i.name + "-" + strconv.FormatInt(i.claims.Add(1), 36) }

// afterwards returns the handler without the errors that come too late: the
// event has been handled, and would be told of as one that failed.
func afterwards(handle webhook.HandlerFunc, logger *slog.Logger) webhook.HandlerFunc {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, event events.Event) error {
		err := handle(ctx, event)
		p, _ := ctx.Value(pendingKey{}).(*pending)
		if err == nil || p == nil || !p.noted {
			return err
		}
		if logger != nil {
			logger.LogAttrs(ctx, slog.LevelError, "webhook handler failed after its transaction",
				slog.String("event_id", event.ID), slog.String("reason", webhook.Attempt{Err: err}.Reason()))
		}
		return nil
	}
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "riverinbox.Inbox") }
