package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// jobWorker is the worker that River calls.
type jobWorker struct {
	river.WorkerDefaults[partition]
	inbox *Inbox
}

// Timeout is a bound that River's rescuer needs; handlers have their own.
func (w *jobWorker) Timeout(*river.Job[partition]) time.Duration { return w.inbox.runTimeout() }

// NextRetry returns when the event is due that made the job fail. A job that was
// rescued is due at once: what is to be waited for is a lease, not the job.
func (w *jobWorker) NextRetry(job *river.Job[partition]) time.Time {
	if now := time.Now(); job.Args.retryAt.Before(now) {
		return now // River takes a time that has passed for a mistake
	}
	return job.Args.retryAt
}

// Work handles what is due in the partition of the job.
func (w *jobWorker) Work(ctx context.Context, job *river.Job[partition]) error {
	done, ok := w.inbox.life.Begin()
	if !ok {
		return river.JobSnooze(time.Second) // for another client
	}
	defer done()
	r := w.inbox.newRun(job.Args)
	var next next
	// On another goroutine, as an observer may end it: River waits for its own.
	err := safecall.Isolated(func() (err error) {
		next, err = r.drain(ctx)
		return err
	})
	switch {
	case err != nil:
		return w.inbox.postpone(ctx, err)
	case next.never:
		return r.verdict(job)
	case r.failing:
		if job.Attempt >= job.MaxAttempts {
			return river.JobSnooze(next.wait) // River would discard a job that is needed
		}
		job.Args.retryAt = time.Now().Add(next.wait)
		return r.failure()
	case r.dead:
		return r.verdict(job) // each event that is left has another job
	case r.settled > 0 && !next.again:
		return nil
	}
	return river.JobSnooze(next.wait)
}

// postpone puts a job off that could do nothing because of the database.
func (i *Inbox) postpone(ctx context.Context, err error) error {
	i.worker.Work().Logger.LogAttrs(ctx, slog.LevelError, "webhook inbox cannot claim", slog.String("reason", err.Error()))
	return river.JobSnooze(time.Second + rand.N(time.Second))
}

// drain handles the events of the partition one after the other, the oldest first,
// until none is due.
func (r *run) drain(ctx context.Context) (next, error) {
	for {
		if ctx.Err() != nil || r.inbox.life.Stopped() || time.Since(r.begun) > r.inbox.worker.Work().HandlerTimeout {
			return next{again: true}, nil
		}
		c, n, err := r.claim(ctx)
		if err != nil || c == nil {
			return n, err
		}
		if err := r.handle(ctx, c); err != nil {
			return next{again: true, wait: r.inbox.config.Lease}, nil // it has been logged
		}
		if r.finished {
			return next{never: true}, nil
		}
	}
}

// handle makes the attempt that c was claimed for.
func (r *run) handle(ctx context.Context, c *claim) error {
	ctx, drop := r.inbox.leases.hold(ctx, c)
	defer drop()
	ctx, done := engine.WithTransaction(ctx, c.task, r.inbox.inTransaction(c))
	return r.inbox.worker.Do(ctx, c.task, func(a webhook.Attempt) error {
		r.remember(a)
		if done() {
			return nil
		}
		return r.recordWithRetry(c, a)
	})
}

// remember keeps what the job reports to River.
func (r *run) remember(a webhook.Attempt) {
	switch a.Result {
	case webhook.ResultFailed:
		r.failing = true
	case webhook.ResultDead:
		r.dead = true
		r.settled++
	case webhook.ResultHandled, webhook.ResultSkipped:
		r.settled++
	}
	r.finished = r.settled > 0 && r.partition.Subject == ""
	if a.Err != nil && len(r.reasons) < 10 {
		r.reasons = append(r.reasons, fmt.Sprintf("%s: attempt %d %s: %s", a.Key, a.Number, a.Result, a.Reason()))
	}
}

// failure is what River stores of a job whose events failed: keys and reasons,
// nothing of the events or of what handlers said.
func (r *run) failure() error { return errors.New(strings.Join(r.reasons, "; ")) }

// verdict ends the job: completed, or if an event was given up, discarded or
// cancelled. The event is a dead letter of the inbox then, which is the place to
// replay it from.
func (r *run) verdict(job *river.Job[partition]) error {
	switch {
	case !r.dead:
		return nil
	case job.Attempt >= job.MaxAttempts:
		return r.failure()
	}
	return river.JobCancel(r.failure())
}
