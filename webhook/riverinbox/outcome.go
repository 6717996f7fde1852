package riverinbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// outcome is what became of an attempt, as inbox_end takes it.
type outcome struct {
	Job      int64           `json:"job"`
	Attempt  int             `json:"attempt"`
	Line     pgtype.UUID     `json:"line"`
	State    string          `json:"state"`
	Number   int             `json:"number"` // of attempts that count
	Wait     string          `json:"wait,omitempty"`
	Error    *attemptError   `json:"error,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Object   string          `json:"object,omitempty"` // to note how new it is
	Created  time.Time       `json:"created,omitzero"`

	unsure bool // it may have been stored without an answer
}

// attemptError is what River shows of an attempt that failed.
type attemptError struct {
	Attempt int    `json:"attempt"`
	Error   string `json:"error"`
	Trace   string `json:"trace"`
}

// schedulerInterval is how often River makes jobs available that are retryable. What is due
// earlier is available, and not before its time.
const schedulerInterval = 5 * time.Second

// outcome says what to record of an attempt.
func (i *Inbox) outcome(job *river.Job[event], a about, made webhook.Attempt) *outcome {
	o := &outcome{Job: job.ID, Attempt: job.Attempt, Line: a.line(), Number: made.Number, State: "completed"}
	switch made.Result {
	case webhook.ResultHandled:
		o.Object, o.Created = string(made.Object), made.CreatedAt
	case webhook.ResultReturned:
		o.State, o.Number = "available", made.Number-1
	case webhook.ResultDead:
		o.State = "cancelled"
		o.failed(a, made, engine.SealError(i.config.Seal, made.Key, made.Err))
	case webhook.ResultFailed:
		if o.State = "available"; made.RetryIn > schedulerInterval {
			o.State = "retryable"
		}
		o.Wait = strconv.FormatInt(made.RetryIn.Microseconds()+1, 10) + " microseconds" // never before its time
		o.failed(a, made, nil)
	}
	return o
}

// failed notes why an attempt failed. Who released an abandoned one has done so.
func (o *outcome) failed(a about, made webhook.Attempt, sealed []byte) {
	o.Error = &attemptError{Attempt: made.Number, Error: text(made.Reason())}
	failures := a.Failures
	if !errors.Is(made.Err, webhook.ErrAbandoned) {
		failures = engine.AppendFailure(failures, made, time.Now())
		last := &failures[len(failures)-1]
		last.Reason, last.RequestID = text(last.Reason), text(last.RequestID)
	}
	o.Metadata, _ = json.Marshal(past{failures, sealed}) // it can be
}

// recordWithRetry records an outcome, together with those of other handlers.
func (i *Inbox) recordWithRetry(o *outcome) error {
	return i.life.Record(i.worker.Work().Logger, i.config.TakeOver, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
		defer cancel()
		return i.outcomes.Do(ctx, o)
	})
}

type outcomeWrite = engine.Write[*outcome]

// newOutcomes returns the group commit of outcomes.
func (i *Inbox) newOutcomes() *engine.Batcher[*outcome] {
	return engine.NewBatcher(engine.BatcherConfig[*outcome]{
		Commit: func(batch []*outcomeWrite) {
			if err := i.record(batch); refused(err) {
				for n := range batch {
					answer(batch[n:n+1], i.record(batch[n:n+1]))
				}
			} else if err != nil {
				answer(batch, err)
			}
		},
		Limit: func([]*outcomeWrite, time.Duration) int { return groupSize },
	})
}

// record records outcomes in one transaction and answers; with an error it does not.
func (i *Inbox) record(batch []*outcomeWrite) error {
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	all := make([]*outcome, len(batch))
	for n, w := range batch {
		all[n] = w.Value
	}
	ended, err := i.end(ctx, i.pool, all...)
	for _, w := range batch {
		switch {
		case err != nil:
			w.Value.unsure = true
		case slices.Contains(ended, w.Value.Job), w.Value.unsure && i.alive.certain():
			w.Done(nil)
		default:
			w.Done(engine.ErrClaimLost)
		}
	}
	if err == nil {
		i.wake() // an event may have been waiting for one of these
	}
	return err
}

// end records outcomes, and returns the jobs that these attempts still had.
func (i *Inbox) end(ctx context.Context, in querier, outcomes ...*outcome) ([]int64, error) {
	all, err := json.Marshal(outcomes)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	return collectFrom(ctx, i, in, pgx.RowTo[int64], "SELECT {s}.inbox_end($1)", all)
}

// InTransaction writes rows of the program's own and stores the event as handled, in one
// transaction: whatever happens, the rows are there exactly if the event counts as handled, so
// that they are written exactly once. ctx is that of the handler.
//
// Call it as the last thing a handler does and return its error. If write fails, or panics,
// nothing is written and the attempt has failed. An error of the handler after it comes too
// late: the event has been handled.
//
// The transaction may insert jobs too, by a client of River that has another schema. It fails
// for a context that is not a handler's, and if it is called a second time.
func InTransaction(ctx context.Context, write func(context.Context, pgx.Tx) error) error {
	return engine.InTransaction(ctx, write)
}

// inTransaction stores the outcome of an attempt, together with what the program writes.
func (i *Inbox) inTransaction(job *river.Job[event], a about) func(context.Context, webhook.Attempt, func(context.Context, pgx.Tx) error) error {
	return func(ctx context.Context, made webhook.Attempt, write func(context.Context, pgx.Tx) error) error {
		// Not the handler's context: its end must not leave open what became of it.
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.worker.Work().HandlerTimeout+engine.LeaseMargin)
		defer cancel()
		err := pgx.BeginFunc(bound, i.pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(bound, i.sql("SELECT FROM {s}.river_job WHERE id = $1 AND state = 'running' AND attempt = $2 FOR UPDATE"), job.ID, job.Attempt)
			switch {
			case err != nil:
				return fmt.Errorf("riverinbox: %w", err)
			case tag.RowsAffected() == 0:
				return engine.ErrClaimLost
			}
			if err := write(ctx, tx); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			ended, err := i.end(bound, tx, i.outcome(job, a, made))
			if err == nil && len(ended) == 0 {
				err = engine.ErrClaimLost
			}
			return err
		})
		if err == nil {
			i.wake()
		}
		return err
	}
}
