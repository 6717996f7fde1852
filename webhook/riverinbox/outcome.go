package riverinbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// outcome is the outcome of an attempt, for inbox_end.
type outcome struct {
	N        int             `json:"n"` // index in the transaction
	Job      int64           `json:"job"`
	At       *time.Time      `json:"at"` // time of River's fetch, the identity of the attempt
	State    string          `json:"state"`
	Attempt  int             `json:"attempt"` // number of counted attempts
	Wait     string          `json:"wait,omitempty"`
	Reason   *string         `json:"reason,omitempty"` // of the failure
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Object   string          `json:"object,omitempty"` // for inbox_newest
	Created  time.Time       `json:"created,omitzero"`

	unsure context.Context // lease at an earlier try without a response
}

// outcomes records the outcomes of attempts.
type outcomes struct {
	*database
	worker  *inboxkit.Worker
	seal    seal.AEAD
	heart   *heart
	bell    *bell
	batches *inboxkit.Batcher[*outcome]
}

// schedulerInterval is the interval at which River makes retryable jobs available. Jobs that are due
// earlier are available with a time in the future.
const schedulerInterval = 5 * time.Second

// of returns the outcome of an attempt.
func (s *outcomes) of(job *river.Job[event], a about, made webhook.Attempt) *outcome {
	o := &outcome{Job: job.ID, At: job.AttemptedAt, Attempt: made.Number, State: "completed"}
	switch made.Result {
	case webhook.ResultHandled:
		o.Object, o.Created = string(made.Object), made.CreatedAt
	case webhook.ResultReturned:
		o.State, o.Attempt = "available", made.Number-1
	case webhook.ResultDead:
		o.State = "cancelled"
		o.fail(a, made, inboxkit.SealError(s.seal, made.Key, made.Err))
	case webhook.ResultFailed:
		if o.State = "available"; made.RetryIn > schedulerInterval {
			o.State = "retryable"
		}
		o.Wait = strconv.FormatInt(made.RetryIn.Microseconds()+1, 10) + " microseconds" // rounded up
		o.fail(a, made, nil)
	}
	return o
}

// fail adds the failure of an attempt. release has already added an abandoned attempt.
func (o *outcome) fail(a about, made webhook.Attempt, sealed []byte) {
	reason, failures := text(made.Reason()), a.Failures
	o.Reason = &reason
	if !errors.Is(made.Err, webhook.ErrAbandoned) {
		failures = inboxkit.AppendFailure(failures, made, time.Now())
		last := &failures[len(failures)-1]
		last.Reason, last.RequestID = reason, text(last.RequestID)
	}
	o.Metadata, _ = json.Marshal(past{failures, sealed}) // cannot fail
}

// inboxEnd records outcomes and returns their indexes, except those of overtaken attempts.
const inboxEnd = "SELECT {s}.inbox_end($1)"

func textOf(outcomes ...*outcome) string {
	all, _ := json.Marshal(outcomes) // cannot fail
	return string(all)
}

// recordWithRetry records an outcome in a shared transaction.
func (s *outcomes) recordWithRetry(o *outcome) error {
	return s.life.Record(s.logger, s.heart.takeOver, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
		defer cancel()
		return s.batches.Do(ctx, o)
	})
}

// recordAll records outcomes, one by one if the database rejects a row.
func (s *outcomes) recordAll(batch []*inboxkit.Write[*outcome]) {
	switch err := s.record(batch); {
	case rejected(err) && len(batch) > 1:
		for n := range batch {
			s.recordAll(batch[n : n+1])
		}
	case err != nil:
		finish(batch, err)
	}
}

// record records outcomes in one transaction. If it fails, it does not complete the writes.
func (s *outcomes) record(batch []*inboxkit.Write[*outcome]) error {
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	all := make([]*outcome, len(batch))
	for n, w := range batch {
		all[n], w.Value.N = w.Value, n
	}
	lease := s.heart.alive.current()
	ended, err := collect(ctx, s.database, pgx.RowTo[int], inboxEnd, textOf(all...))
	for _, w := range batch {
		switch {
		case err != nil:
			w.Value.unsure = cmp.Or(w.Value.unsure, lease)
		case slices.Contains(ended, w.Value.N), w.Value.unsure != nil && w.Value.unsure.Err() == nil:
			w.Done(nil)
		default:
			w.Done(engine.ErrClaimLost)
		}
	}
	s.bell.ring() // for the next events of their ordering keys
	return err
}

// InTransaction writes your program's rows and stores the event as handled in one transaction,
// so the rows are written exactly once. ctx must be the context of the handler. write can also
// insert jobs, with a client of River in another schema.
//
// Call it last in a handler and return its error. If write fails or panics, the transaction is
// rolled back and the attempt has failed. A later error of the handler has no effect.
// InTransaction fails if ctx is not from a handler, and on a second call. Commit and Rollback of the
// transaction fail, because InTransaction ends it. Begin creates a savepoint.
func InTransaction(ctx context.Context, write func(context.Context, pgx.Tx) error) error {
	return inboxkit.InTransaction(ctx, write)
}

// ownedTx is a transaction of InTransaction. If write could end it, its rows would be committed once
// per attempt.
type ownedTx struct{ pgx.Tx }

var errOwned = errors.New("riverinbox: InTransaction ends the transaction: return an error to roll it back")

// Commit fails.
func (ownedTx) Commit(context.Context) error { return errOwned }

// Rollback fails.
func (ownedTx) Rollback(context.Context) error { return errOwned }

// inTransaction stores the outcome of an attempt and the program's rows.
func (s *outcomes) inTransaction(job *river.Job[event], a about) func(context.Context, webhook.Attempt, func(context.Context, pgx.Tx) error) error {
	return func(ctx context.Context, made webhook.Attempt, write func(context.Context, pgx.Tx) error) error {
		// The handler's context is not used, because its end would leave the outcome unknown.
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.worker.Work().HandlerTimeout+inboxkit.LeaseMargin)
		defer cancel()
		defer s.bell.ring()
		return pgx.BeginFunc(bound, s.pool, func(tx pgx.Tx) error {
			mine, err := tx.Exec(bound, s.sql("SELECT FROM {s}.river_job WHERE id = $1 AND state = 'running' AND attempted_at = $2 FOR UPDATE"), job.ID, job.AttemptedAt)
			if err != nil || mine.RowsAffected() == 0 {
				return cmp.Or(err, engine.ErrClaimLost)
			}
			if err := cmp.Or(write(ctx, ownedTx{tx}), ctx.Err()); err != nil {
				return err
			}
			mine, err = tx.Exec(bound, s.sql(inboxEnd), textOf(s.of(job, a, made)))
			if err != nil || mine.RowsAffected() == 0 {
				return cmp.Or(err, engine.ErrClaimLost)
			}
			return nil
		})
	}
}
