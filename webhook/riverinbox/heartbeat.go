package riverinbox

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
)

const (
	cannotBeat = "webhook inbox cannot store a heartbeat"
	sweepEvery = 2 * time.Second
)

// alive tracks the running handlers of this process, and its lease on them.
type alive struct {
	life     context.Context
	patience time.Duration // two thirds of TakeOver
	timer    *time.Timer

	mu    sync.Mutex
	beat  time.Time       // the last one
	jobs  map[int64]int   // handlers by job: 2 after a take-over by the same process
	lost  []try           // of the last call of abandon
	lease context.Context // ends with life, or after patience without a beat
	end   context.CancelFunc
}

// try is an attempt of a job.
type try struct {
	Job     int64
	Attempt int
}

func newAlive(life context.Context, takeOver time.Duration) *alive {
	a := &alive{life: life, patience: takeOver * 2 / 3, beat: time.Now(), jobs: map[int64]int{}}
	a.lease, a.end = context.WithCancel(life)
	a.timer = time.AfterFunc(a.patience, func() { a.current() })
	return a
}

// current returns the lease. It ends an overdue lease, because timers of a paused process are late.
func (a *alive) current() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.beat) >= a.patience {
		a.end()
	}
	return a.lease
}

// renew extends the lease, or starts a new one, after a beat.
func (a *alive) renew(beat time.Time) {
	before := a.current()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beat = beat
	if a.timer.Reset(a.patience - time.Since(beat)); before.Err() != nil {
		a.lease, a.end = context.WithCancel(a.life)
	}
}

// hold registers a handler until the call of drop. The returned context ends with the lease. It returns
// false for an abandoned attempt.
func (a *alive) hold(ctx context.Context, t try) (_ context.Context, drop func(), ok bool) {
	lease := a.current()
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.lost, t) {
		return nil, nil, false
	}
	a.jobs[t.Job]++
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(lease, cancel)
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.jobs[t.Job]--; a.jobs[t.Job] == 0 {
			delete(a.jobs, t.Job)
		}
		unlink()
		cancel()
	}, true
}

// abandon returns the attempts without a handler. They get none before the next call, so their jobs can be
// released.
func (a *alive) abandon(tries []try) []try {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = slices.DeleteFunc(slices.Clone(tries), func(t try) bool { return a.jobs[t.Job] > 0 })
	return a.lost
}

// held returns the jobs of running handlers.
func (a *alive) held() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.AppendSeq([]int64{}, maps.Keys(a.jobs)) // not nil: that is NULL
}

// live stores a heartbeat.
func (i *Inbox) live(ctx context.Context) error {
	now := time.Now()
	_, err := i.exec(ctx, `INSERT INTO {s}.inbox_worker AS w VALUES ($1, 1)
		ON CONFLICT (client) DO UPDATE SET beats = w.beats + 1`, i.name)
	if err == nil {
		i.alive.renew(now)
	}
	return err
}

// beat stores a heartbeat. It also releases jobs that run for this process without a handler
// in two beats, because the response to a fetch or an outcome was lost.
func (i *Inbox) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, i.config.TakeOver/6)
	defer cancel()
	if err := i.live(ctx); err != nil {
		return err
	}
	const mine = "j.attempted_by[cardinality(j.attempted_by)] = $2 AND "
	var jobs []int64
	var attempts []int
	for _, t := range i.alive.abandon(i.adrift) {
		jobs, attempts = append(jobs, t.Job), append(attempts, t.Attempt)
	}
	err := i.release(ctx, mine+"(j.id, j.attempt) IN (SELECT * FROM unnest($3::bigint[], $4::integer[]))", i.name, jobs, attempts)
	if err != nil {
		return err
	}
	i.adrift, err = collect(ctx, i, pgx.RowToStructByPos[try], "SELECT j.id, j.attempt FROM {s}.river_job j WHERE "+mine+"state::text = $1 AND j.id <> ALL ($3)",
		"running", i.name, i.alive.held())
	return err
}

// release makes running jobs available. The lost attempts count. It ignores locked jobs, because
// their outcome is about to be committed.
func (i *Inbox) release(ctx context.Context, condition string, args ...any) error {
	n, err := i.exec(ctx, `WITH lost AS (SELECT id FROM {s}.river_job j WHERE state = 'running' AND `+condition+` FOR UPDATE SKIP LOCKED)
		UPDATE {s}.river_job j SET
			state = CASE WHEN metadata ? 'cancel_attempted_at' THEN 'cancelled' ELSE 'available' END::{s}.river_job_state,
			finalized_at = CASE WHEN metadata ? 'cancel_attempted_at' THEN clock_timestamp() END, scheduled_at = clock_timestamp(),
			metadata = jsonb_set(metadata - 'failure', '{failures}', coalesce(metadata->'failures', '[]')
				|| jsonb_build_object('at', clock_timestamp(), 'attempt', attempt, 'reason', $1::text)),
			errors = array_append(errors, jsonb_build_object('at', clock_timestamp(), 'attempt', attempt, 'error', $1::text, 'trace', ''))
		FROM lost WHERE j.id = lost.id`, append([]any{webhook.ErrAbandoned.Error()}, args...)...)
	if n > 0 {
		i.wake()
	}
	return err
}

// pulse is a row of inbox_worker.
type pulse struct {
	Client string
	Beats  int64
}

// others is the time since which this process sees the same beats of a process, and the number
// of its checks. After a pause of its own, it must check several times.
type others map[pulse]struct {
	since time.Time
	looks int
}

// dead returns the processes without a new beat for patience.
func (o others) dead(now []pulse, patience time.Duration) (dead []string, beats []int64) {
	for _, p := range now {
		seen := o[p]
		if seen.looks++; seen.looks == 1 {
			seen.since = time.Now()
		}
		if o[p] = seen; seen.looks > 4 && time.Since(seen.since) >= patience {
			dead, beats = append(dead, p.Client), append(beats, p.Beats)
		}
	}
	for p := range o {
		if !slices.Contains(now, p) {
			delete(o, p)
		}
	}
	return dead, beats
}

// sweep releases the jobs of dead processes and repairs the order of events.
func (i *Inbox) sweep(ctx context.Context) error {
	now, err := collect(ctx, i, pgx.RowToStructByPos[pulse], "SELECT client, beats FROM {s}.inbox_worker")
	if err != nil {
		return err
	}
	if dead, beats := i.others.dead(now, i.config.TakeOver); len(dead) > 0 {
		if _, err := i.exec(ctx, `DELETE FROM {s}.inbox_worker w USING unnest($1::text[], $2::bigint[]) AS d (client, beats)
			WHERE w.client = d.client AND w.beats = d.beats`, dead, beats); err != nil {
			return err
		}
	}
	err = i.release(ctx, "NOT EXISTS (SELECT FROM {s}.inbox_worker w WHERE w.client = j.attempted_by[cardinality(j.attempted_by)])")
	if err := cmp.Or(err, i.followClock(ctx)); err != nil || rand.IntN(max(1, len(now))) > 0 {
		return err
	}
	return i.repairHeads(ctx) // about once per sweepEvery among all processes
}

// followClock corrects times in the future, from before a correction of the clock: a new event is
// due now, and a failed one after the longest wait. It also makes retries due, because River uses
// the clock of its leader, and deletes an old leader.
func (i *Inbox) followClock(ctx context.Context) error {
	_, ahead := i.exec(ctx, `UPDATE {s}.river_job SET scheduled_at = clock_timestamp()
		WHERE state IN ('available', 'retryable') AND queue = '{queue}' AND priority = 1 AND scheduled_at > clock_timestamp()
		AND (attempt = 0 OR scheduled_at > clock_timestamp() + $1::interval)`, i.worker.Work().Retry.MaxBackOff+time.Second)
	_, due := i.exec(ctx, `UPDATE {s}.river_job SET state = 'available' WHERE id IN (SELECT id FROM {s}.river_job
			WHERE state = 'retryable' AND queue = '{queue}' AND priority = 1 AND scheduled_at <= clock_timestamp() FOR UPDATE SKIP LOCKED);
		DELETE FROM {s}.river_leader WHERE expires_at > clock_timestamp() + interval '5 minutes'`)
	return cmp.Or(ahead, due)
}

// repairHeads repairs ordering keys without a head, and heads that another client ended or deleted.
func (i *Inbox) repairHeads(ctx context.Context) error {
	orderingKeys, err := collect(ctx, i, pgx.RowTo[[16]byte], `SELECT l.ordering_key FROM {s}.inbox_order l LEFT JOIN {s}.river_job j ON j.id = l.job
			WHERE l.head AND (j.id IS NULL OR j.state IN ('completed', 'cancelled', 'discarded', 'pending'))
		UNION SELECT l.ordering_key FROM {s}.inbox_order l WHERE NOT EXISTS (SELECT FROM {s}.inbox_order h WHERE h.ordering_key = l.ordering_key AND h.head)
		LIMIT 250`)
	if err != nil || len(orderingKeys) == 0 {
		return err
	}
	_, err = i.exec(ctx, "SELECT {s}.inbox_next($1)", orderingKeys)
	i.wake()
	return err
}
