package riverinbox

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
)

// alive is what this process knows of itself: the jobs that its handlers are at, and whether
// others may take it for dead.
type alive struct {
	patience time.Duration // two thirds of TakeOver
	timer    *time.Timer

	mu    sync.Mutex
	jobs  map[int64]bool
	lease context.Context // ends when the process has given no sign of life for its patience
	end   context.CancelFunc
}

func newAlive(takeOver time.Duration) *alive {
	a := &alive{patience: takeOver * 2 / 3, jobs: map[int64]bool{}}
	a.lease, a.end = context.WithCancel(context.Background())
	a.timer = time.AfterFunc(a.patience, a.giveUp)
	return a
}

func (a *alive) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// renew begins the time of the process anew, which said at a time that it lives.
func (a *alive) renew(said time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Reset(a.patience - time.Since(said))
	if a.lease.Err() != nil {
		a.lease, a.end = context.WithCancel(context.Background())
	}
}

// hold notes that a handler is at a job until drop is called. The context that it returns ends
// when others may take this process for dead.
func (a *alive) hold(ctx context.Context, job int64) (_ context.Context, drop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.jobs[job] = true
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(a.lease, cancel)
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.jobs, job)
		unlink()
		cancel()
	}
}

// certain reports that no other process can have taken this one for dead.
func (a *alive) certain() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.Err() == nil
}

// held returns the jobs that handlers are at.
func (a *alive) held() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := make([]int64, 0, len(a.jobs))
	for job := range a.jobs {
		held = append(held, job)
	}
	return held
}

// try is one attempt at a job.
type try struct {
	Job     int64
	Attempt int
}

// beat says that this process lives. It also releases what River counts as its own and no
// handler is at, twice in a row: the database did not answer when it was fetched or recorded.
func (i *Inbox) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, i.config.TakeOver/6)
	defer cancel()
	now := time.Now()
	_, err := i.exec(ctx, `INSERT INTO {s}.inbox_worker AS w VALUES ($1, 1)
		ON CONFLICT (client) DO UPDATE SET beats = w.beats + 1`, i.name)
	if err != nil {
		return err
	}
	i.alive.renew(now)
	adrift, err := i.running(ctx, "j.attempted_by[cardinality(j.attempted_by)] = $1 AND j.id <> ALL ($2)", i.name, i.alive.held())
	if err != nil {
		return err
	}
	before := i.adrift
	i.adrift = map[try]bool{}
	var lost []try
	for _, t := range adrift {
		if i.adrift[t] = true; before[t] {
			lost = append(lost, t)
		}
	}
	return i.release(ctx, lost)
}

// running returns the attempts that run and match a condition.
func (i *Inbox) running(ctx context.Context, condition string, args ...any) ([]try, error) {
	return collect(ctx, i, pgx.RowToStructByPos[try], "SELECT id, attempt FROM {s}.river_job j WHERE state = 'running' AND "+condition, args...)
}

// release ends attempts that nobody makes any more. They count, and the worker sees whether one
// was the last. A job that is locked is about to be recorded.
func (i *Inbox) release(ctx context.Context, lost []try) error {
	if len(lost) == 0 {
		return nil
	}
	jobs, attempts := make([]int64, len(lost)), make([]int, len(lost))
	for n, t := range lost {
		jobs[n], attempts[n] = t.Job, t.Attempt
	}
	_, err := i.exec(ctx, `WITH lost AS (
			SELECT id FROM {s}.river_job j JOIN unnest($1::bigint[], $2::integer[]) AS l (job, attempt) ON j.id = l.job AND j.attempt = l.attempt
			WHERE j.state = 'running' FOR UPDATE OF j SKIP LOCKED
		) UPDATE {s}.river_job j SET
			state = CASE WHEN metadata ? 'cancel_attempted_at' THEN 'cancelled' ELSE 'available' END::{s}.river_job_state,
			finalized_at = CASE WHEN metadata ? 'cancel_attempted_at' THEN clock_timestamp() END,
			scheduled_at = clock_timestamp(),
			metadata = jsonb_set(metadata - 'failure', '{failures}', coalesce(metadata->'failures', '[]')
				|| jsonb_build_object('at', clock_timestamp(), 'attempt', attempt, 'reason', $3::text)),
			errors = array_append(errors, jsonb_build_object('at', clock_timestamp(), 'attempt', attempt, 'error', $3::text, 'trace', ''))
		FROM lost WHERE j.id = lost.id`, jobs, attempts, webhook.ErrAbandoned.Error())
	i.wake()
	return err
}

// worker is a row of inbox_worker.
type worker struct {
	Client string
	Beats  int64
}

// others remembers how many signs of life each process has given, and since when. Only one
// goroutine uses it.
type others map[worker]time.Time

// dead returns the processes that have given no sign of life for so long.
func (o others) dead(now []worker, patience time.Duration) (dead []string, beats []int64) {
	for _, w := range now {
		since, ok := o[w]
		switch {
		case !ok:
			o[w] = time.Now()
		case time.Since(since) >= patience:
			dead, beats = append(dead, w.Client), append(beats, w.Beats)
		}
	}
	maps.DeleteFunc(o, func(w worker, _ time.Time) bool { return !slices.Contains(now, w) })
	return dead, beats
}

// sweepEvery is how often a replica looks for events whose process died, and for lines that
// stand still.
const sweepEvery = 2 * time.Second

// sweep hands on the events of processes that died, and mends what stands still.
func (i *Inbox) sweep(ctx context.Context) error {
	if err := i.bury(ctx); err != nil {
		return err
	}
	lost, err := i.running(ctx, "NOT EXISTS (SELECT FROM {s}.inbox_worker w WHERE w.client = j.attempted_by[cardinality(j.attempted_by)])")
	if err != nil {
		return err
	}
	if err := i.release(ctx, lost); err != nil {
		return err
	}
	if err := i.followClock(ctx); err != nil || rand.IntN(max(1, len(i.others))) > 0 {
		return err
	}
	return i.mendLines(ctx) // about every sweepEvery, whichever of the replicas does it
}

// bury deletes the rows of processes that died.
func (i *Inbox) bury(ctx context.Context) error {
	rows, err := collect(ctx, i, pgx.RowToStructByPos[worker], "SELECT client, beats FROM {s}.inbox_worker")
	if err != nil {
		return err
	}
	dead, last := i.others.dead(rows, i.config.TakeOver)
	if len(dead) == 0 {
		return nil
	}
	_, err = i.exec(ctx, `DELETE FROM {s}.inbox_worker w USING unnest($1::text[], $2::bigint[]) AS d (client, beats)
		WHERE w.client = d.client AND w.beats = d.beats`, dead, last)
	return err
}

// followClock has events handled that were stored while the clock of the database was ahead: a
// new one now, and one that failed after the longest wait.
func (i *Inbox) followClock(ctx context.Context) error {
	_, err := i.exec(ctx, `UPDATE {s}.river_job SET scheduled_at = clock_timestamp()
		WHERE state IN ('available', 'retryable') AND queue = '{queue}' AND priority = 1 AND scheduled_at > clock_timestamp()
		AND (attempt = 0 OR scheduled_at > clock_timestamp() + $1::interval)`, i.worker.Work().Retry.MaxBackOff+time.Second)
	return err
}

// mendLines lets lines go on whose head is not one that River has or may fetch: somebody else
// ended or deleted it.
func (i *Inbox) mendLines(ctx context.Context) error {
	lines, err := collect(ctx, i, pgx.RowTo[[16]byte], `SELECT l.line FROM {s}.inbox_line l LEFT JOIN {s}.river_job j ON j.id = l.job
			WHERE l.head AND (j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded', 'pending'))
		UNION SELECT l.line FROM {s}.inbox_line l WHERE NOT EXISTS (SELECT FROM {s}.inbox_line h WHERE h.line = l.line AND h.head)
		LIMIT 1000`)
	if err != nil || len(lines) == 0 {
		return err
	}
	_, err = i.exec(ctx, "SELECT {s}.inbox_next($1)", lines)
	i.wake()
	return err
}
