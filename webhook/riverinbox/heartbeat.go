package riverinbox

import (
	"cmp"
	"context"
	"log/slog"
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

	clientPrefix = "dispensary_" // of the names of River's clients
)

// alive tracks the running handlers of this process, and its lease on them.
type alive struct {
	life     context.Context
	patience time.Duration // two thirds of TakeOver
	timer    *time.Timer

	mu    sync.Mutex
	beat  time.Time       // the last one
	jobs  map[int64]int   // handlers by job: 2 after a take-over by the same process
	lease context.Context // ends with life, or after patience without a beat
	end   context.CancelFunc
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

// hold registers a handler until the call of drop. The returned context ends with the lease.
func (a *alive) hold(ctx context.Context, job int64) (_ context.Context, drop func()) {
	lease := a.current()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.jobs[job]++
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(lease, cancel)
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.jobs[job]--; a.jobs[job] == 0 {
			delete(a.jobs, job)
		}
		unlink()
		cancel()
	}
}

// held returns the jobs of running handlers.
func (a *alive) held() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.AppendSeq([]int64{}, maps.Keys(a.jobs)) // not nil: that is NULL
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

// heart stores heartbeats and watches those of other processes.
type heart struct {
	*database
	name       string // of this process and of its client of River
	takeOver   time.Duration
	maxBackOff time.Duration
	bell       *bell
	alive      *alive
	others     others
	watching   context.Context // lease since which others is complete
	strange    bool            // another client of River was there in the last beat
}

// live stores a heartbeat.
func (h *heart) live(ctx context.Context) error {
	now := time.Now()
	_, err := h.exec(ctx, `INSERT INTO {s}.inbox_worker AS w VALUES ($1, 1)
		ON CONFLICT (client) DO UPDATE SET beats = w.beats + 1`, h.name)
	if err == nil {
		h.alive.renew(now)
	}
	return err
}

// beat stores a heartbeat, and logs the arrival of another client of River.
func (h *heart) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.takeOver/6)
	defer cancel()
	if err := h.live(ctx); err != nil {
		return err
	}
	strange, err := h.strangers(ctx)
	if err == nil && strange && !h.strange {
		h.logger.LogAttrs(ctx, slog.LevelError, "another client of River uses the schema of the webhook inbox, and deletes dead letters: use a separate schema for it")
	}
	h.strange = strange
	return err
}

// strangers reports whether the schema has another client of River. As leader, it would discard
// jobs of unknown kinds and delete dead letters.
func (h *heart) strangers(ctx context.Context) (bool, error) {
	return one[bool](ctx, h.database, `SELECT EXISTS (SELECT FROM {s}.river_job WHERE kind < '{kind}' OR kind > '{kind}')
		OR EXISTS (SELECT FROM {s}.river_queue WHERE name <> '{queue}')
		OR EXISTS (SELECT FROM {s}.river_leader WHERE NOT starts_with(leader_id, '`+clientPrefix+`') AND expires_at > now())`)
}

// judges reports whether this process may take others for dead. Without a lease it could not write,
// so neither could the others, perhaps. It then forgets all that it has seen of them.
func (h *heart) judges() bool {
	lease := h.alive.current()
	if h.watching != lease {
		h.others, h.watching = others{}, lease
	}
	return lease.Err() == nil
}

// sweep releases the jobs of dead processes, and jobs that run for this process without a handler,
// because the response to a fetch or an outcome was lost.
func (h *heart) sweep(ctx context.Context) error {
	if !h.judges() {
		return nil
	}
	now, err := collect(ctx, h.database, pgx.RowToStructByPos[pulse], "SELECT client, beats FROM {s}.inbox_worker")
	if err != nil {
		return err
	}
	if dead, beats := h.others.dead(now, h.takeOver); len(dead) > 0 {
		if _, err := h.exec(ctx, `DELETE FROM {s}.inbox_worker w USING unnest($1::text[], $2::bigint[]) AS d (client, beats)
			WHERE w.client = d.client AND w.beats = d.beats`, dead, beats); err != nil {
			return err
		}
	}
	released, err := one[int](ctx, h.database, "SELECT {s}.inbox_release($1, $2, $3, $4::interval)", webhook.ErrAbandoned.Error(), h.name, h.alive.held(), h.takeOver)
	if released > 0 {
		h.bell.ring()
	}
	if err != nil || rand.IntN(max(1, len(now))) > 0 {
		return err
	}
	_, err = h.bell.settle(ctx, 0)         // for processes that died before it
	return cmp.Or(err, h.followClock(ctx)) // both about once per sweepEvery among all processes
}

// followClock corrects times in the future, from before a correction of the clock: a new event is
// due now, and a failed one after the longest wait. It also makes retries due, because River uses
// the clock of its leader, and deletes an old leader.
func (h *heart) followClock(ctx context.Context) error {
	_, ahead := h.exec(ctx, `UPDATE {s}.river_job SET scheduled_at = clock_timestamp()
		WHERE state IN ('available', 'retryable') AND queue = '{queue}' AND priority = 1 AND scheduled_at > clock_timestamp()
		AND (attempt = 0 OR scheduled_at > clock_timestamp() + $1::interval)`, h.maxBackOff+time.Second)
	_, due := h.exec(ctx, `UPDATE {s}.river_job SET state = 'available' WHERE id IN (SELECT id FROM {s}.river_job
			WHERE state = 'retryable' AND queue = '{queue}' AND priority = 1 AND scheduled_at <= clock_timestamp() FOR UPDATE SKIP LOCKED);
		DELETE FROM {s}.river_leader WHERE expires_at > clock_timestamp() + interval '5 minutes'`)
	return cmp.Or(ahead, due)
}
