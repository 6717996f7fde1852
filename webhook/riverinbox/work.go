package riverinbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// eventWorker is the worker that River calls.
type eventWorker struct {
	river.WorkerDefaults[event]
	inbox *Inbox
}

// Work makes one attempt. It is made on another goroutine, as an observer may end it: River
// waits for its own.
func (w *eventWorker) Work(ctx context.Context, job *river.Job[event]) error {
	return safecall.Isolated(func() error {
		ctx, drop := w.inbox.alive.hold(ctx, job.ID)
		defer drop()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(w.inbox.life.Context(), cancel)()
		return w.inbox.attempt(ctx, job)
	})
}

// attempt makes an attempt and records it. What could not be recorded counts as running, until
// the next sign of life shows that no handler is at it.
func (i *Inbox) attempt(ctx context.Context, job *river.Job[event]) error {
	var a about
	if err := json.Unmarshal(job.Metadata, &a); err != nil {
		return river.JobCancel(errors.New("metadata of the job is not that of an event"))
	}
	if i.life.Stopped() {
		return i.putBack(job, a)
	}
	task := engine.Task{Attempt: job.Attempt, Object: a.Object}
	if a.Subject != "" || a.Object != "" {
		turn, newest, err := i.begin(ctx, job, a)
		switch {
		case err != nil:
			i.warn("webhook inbox cannot begin an event", err)
			return i.putBack(job, a)
		case !turn:
			return recorded{}
		}
		task.Newest = newest
	}
	task.Delivery, task.Err = i.delivery(job.Args, a)
	if job.Attempt > i.worker.Work().Retry.MaxAttempts && a.Failure == nil { // else a person retries it
		task.Attempt, task.Err = job.Attempt-1, webhook.ErrAbandoned
	}
	ctx, done := engine.WithTransaction(ctx, task, i.inTransaction(job, a))
	_ = i.worker.Do(ctx, task, func(made webhook.Attempt) error { // an error has been logged
		if done() {
			return nil
		}
		return i.recordWithRetry(i.outcome(job, a, made))
	})
	return recorded{}
}

// begin asks whether it is the turn of a job, and for the time of the newest event of its object.
func (i *Inbox) begin(ctx context.Context, job *river.Job[event], a about) (turn bool, newest time.Time, err error) {
	var at *time.Time
	err = i.pool.QueryRow(ctx, i.sql("SELECT * FROM {s}.inbox_begin($1, $2, $3, $4, $5)"),
		a.line(), a.Order, job.ID, job.Attempt, string(a.Object)).Scan(&turn, &at)
	if err != nil {
		return false, newest, fmt.Errorf("riverinbox: %w", err)
	}
	if at != nil {
		newest = at.UTC()
	}
	return turn, newest, nil
}

// putBack makes an attempt one that was not begun.
func (i *Inbox) putBack(job *river.Job[event], a about) error {
	err := i.recordWithRetry(i.outcome(job, a, webhook.Attempt{Number: job.Attempt, Result: webhook.ResultReturned}))
	i.warn("webhook inbox cannot put an event back", err)
	return recorded{}
}
