package riverinbox

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Values in River's tables.
const (
	kind  = "dispensary_webhook"
	queue = "dispensary_webhooks"
)

// event contains the arguments of a job. Body is encrypted.
type event struct {
	Key  string `json:"key"`
	Body []byte `json:"body"`
}

// Kind implements [river.JobArgs].
func (event) Kind() string { return kind }

// about is the metadata of a job. The arrival of the event is the time at which River has created it.
type about struct {
	Type        events.Type         `json:"type"`
	Clinic      string              `json:"clinic,omitempty"`
	Created     time.Time           `json:"created,omitzero"`
	OrderAt     time.Time           `json:"order_at,omitzero"`
	OrderingKey webhook.OrderingKey `json:"ordering_key,omitempty"`
	Object      webhook.OrderingKey `json:"object,omitempty"`
	past
}

// past contains the failures of an event, and the encrypted error of a dead letter.
type past struct {
	Failures []engine.Failure `json:"failures,omitempty"`
	Failure  []byte           `json:"failure,omitempty"`
}

// orderingKey returns the digest of the ordering key, or NULL.
func (a about) orderingKey() pgtype.UUID {
	if a.OrderingKey == "" {
		return pgtype.UUID{}
	}
	return digestOf(string(a.OrderingKey))
}

// delivery decrypts the delivery of a job. With an error, it returns the delivery without a body.
func (i *Inbox) delivery(job *river.Job[event], a about) (webhook.Delivery, error) {
	d := webhook.Delivery{Type: a.Type, ClinicID: a.Clinic, CreatedAt: a.Created, ReceivedAt: job.CreatedAt.UTC()}
	if err := d.Key.UnmarshalText([]byte(job.Args.Key)); err != nil {
		return d, err
	}
	var err error
	d.Body, err = inboxkit.OpenBody(i.config.Seal, d.Key, job.Args.Body)
	return d, err
}

// digestOf returns half of the SHA-256 of a text.
func digestOf(text string) pgtype.UUID {
	sum := sha256.Sum256([]byte(text))
	return pgtype.UUID{Bytes: [16]byte(sum[:16]), Valid: true}
}

// keyDigest returns the digest of a key, from its text. Keys of one event ID have digests with the same
// first half.
func keyDigest(key string) pgtype.UUID {
	digest, id := digestOf(key), digestOf(strings.Split(key, "/")[2])
	return pgtype.UUID{Bytes: [16]byte(slices.Concat(id.Bytes[:8], digest.Bytes[:8])), Valid: true}
}

// text replaces bytes that PostgreSQL does not accept. The body keeps them.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// maxIndexed is the length up to which PostgreSQL can index a text.
const maxIndexed = 2600

// recorded is the error of Work after the inbox has recorded the outcome. River treats it as an
// error about several jobs, finds no job, and records no outcome. River would not check whether the
// attempt was overtaken.
type recorded struct{}

func (recorded) Error() string               { return "riverinbox: outcome is already recorded" }
func (recorded) Jobs() []*rivertype.JobRow   { return nil }
func (recorded) ErrorsByID() map[int64]error { return nil }

// eventWorker implements [river.Worker].
type eventWorker struct {
	river.WorkerDefaults[event]
	inbox *Inbox
}

// Work makes one attempt. If the lease has ended, it stores a heartbeat first.
func (w *eventWorker) Work(ctx context.Context, job *river.Job[event]) error {
	if w.inbox.alive.current().Err() != nil {
		w.inbox.warn(cannotBeat, w.inbox.live(ctx))
	}
	ctx, drop, ok := w.inbox.alive.hold(ctx, try{job.ID, job.Attempt})
	if !ok {
		return recorded{} // beat releases the job
	}
	defer drop()
	return w.inbox.attempt(ctx, job)
}

// attempt makes an attempt and records its outcome. If it cannot record the outcome, beat releases
// the job.
func (i *Inbox) attempt(ctx context.Context, job *river.Job[event]) error {
	var a about
	if err := json.Unmarshal(job.Metadata, &a); err != nil {
		return river.JobCancel(errors.New("job has no metadata of an event"))
	}
	if i.life.Stopped() {
		return i.putBack(job, a)
	}
	f := &fetched{Job: job.ID, At: job.AttemptedAt, OrderingKey: a.orderingKey(), Object: string(a.Object)}
	if a.OrderingKey != "" || a.Object != "" {
		turn, err := i.begin(ctx, f, a.OrderAt)
		if err != nil {
			i.warn("webhook inbox cannot look up an event", err)
			return i.putBack(job, a)
		}
		if !turn {
			return recorded{}
		}
	}
	task := inboxkit.Task{Attempt: job.Attempt, Object: a.Object, Newest: f.newest}
	task.Delivery, task.Err = i.delivery(job, a)
	// If the last attempt was lost, release has added an error. Otherwise a person retries the event.
	if n := len(job.Errors); job.Attempt > i.worker.Work().Retry.MaxAttempts && a.Failure == nil && n > 0 && job.Errors[n-1].Attempt == job.Attempt-1 {
		task.Attempt, task.Err = job.Attempt-1, webhook.ErrAbandoned
	}
	ctx, done := inboxkit.WithTransaction(ctx, task, i.inTransaction(job, a))
	_ = i.worker.Do(ctx, task, func(made webhook.Attempt) error { // Do has logged an error
		if done() {
			return nil
		}
		return i.recordWithRetry(i.outcome(job, a, made))
	})
	return recorded{}
}

// fetched is a job to look up before its attempt.
type fetched struct {
	N           int         `json:"n"` // index in the query
	Job         int64       `json:"job"`
	At          *time.Time  `json:"at"`
	OrderingKey pgtype.UUID `json:"ordering_key"`
	Object      string      `json:"object"`

	held   bool      // the attempt was not overtaken
	head   bool      // the job is the head of its ordering key
	newest time.Time // time of the newest event of the object
}

// begin reports whether the job is the head of its ordering key. Otherwise it makes the job pending.
func (i *Inbox) begin(ctx context.Context, f *fetched, order time.Time) (turn bool, err error) {
	if err := i.begins.Do(ctx, f); err != nil || !f.held || f.head || !f.OrderingKey.Valid {
		return err == nil && f.held, err
	}
	return one[bool](ctx, i, "SELECT {s}.inbox_turn($1, $2, $3, $4)", f.OrderingKey, order, f.Job, f.At)
}

// lookUp looks up jobs in one query.
func (i *Inbox) lookUp(batch []*inboxkit.Write[*fetched]) {
	all := make([]*fetched, len(batch))
	for n, w := range batch {
		all[n], w.Value.N = w.Value, n
	}
	jobs, _ := json.Marshal(all) // cannot fail
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	found, err := collect(ctx, i, pgx.RowToStructByPos[struct {
		N          int
		Held, Head bool
		Newest     *time.Time
	}], `SELECT f.n, EXISTS (SELECT FROM {s}.river_job j WHERE j.id = f.job AND j.state = 'running' AND j.attempted_at = f.at),
			EXISTS (SELECT FROM {s}.inbox_order l WHERE l.ordering_key = f.ordering_key AND l.job = f.job AND l.head),
			(SELECT n.at FROM {s}.inbox_newest n WHERE n.object = f.object)
		FROM jsonb_to_recordset($1) AS f (n integer, job bigint, at timestamptz, ordering_key uuid, object text)`, string(jobs))
	for _, f := range found {
		if all[f.N].held, all[f.N].head = f.Held, f.Head; f.Newest != nil {
			all[f.N].newest = f.Newest.UTC()
		}
	}
	answer(batch, err)
}

// putBack makes the job available again. The attempt does not count.
func (i *Inbox) putBack(job *river.Job[event], a about) error {
	err := i.recordWithRetry(i.outcome(job, a, webhook.Attempt{Number: job.Attempt, Result: webhook.ResultReturned}))
	i.warn("webhook inbox cannot make an event available again", err)
	return recorded{}
}
