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

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// eventWorker implements [river.Worker]. It records outcomes itself, so it always returns nil, and
// the schema ignores that River records them too.
type eventWorker struct {
	river.WorkerDefaults[event]
	attempts *attempts
}

// Work makes one attempt. If the lease has ended, it stores a heartbeat first.
func (w *eventWorker) Work(ctx context.Context, job *river.Job[event]) error {
	a := w.attempts
	if a.heart.alive.current().Err() != nil {
		a.warn(cannotBeat, a.heart.live(ctx))
	}
	ctx, drop := a.heart.alive.hold(ctx, job.ID)
	defer drop()
	a.attempt(ctx, job)
	return nil
}

// attempts makes attempts.
type attempts struct {
	*database
	worker   *inboxkit.Worker
	seal     seal.AEAD
	heart    *heart
	bell     *bell
	begins   *inboxkit.Batcher[*fetched]
	outcomes *outcomes
}

// attempt makes an attempt and records its outcome. If it cannot record the outcome, a sweep
// releases the job.
func (s *attempts) attempt(ctx context.Context, job *river.Job[event]) {
	var a about
	malformed := json.Unmarshal(job.Metadata, &a) // a person has inserted the job
	if s.life.Stopped() {
		s.putBack(job, a)
		return
	}
	f := &fetched{Job: job.ID, At: job.AttemptedAt, OrderingKey: a.orderingKey(), Object: string(a.Object)}
	turn, err := s.begin(ctx, f, a.OrderAt)
	if err != nil {
		s.warn("webhook inbox cannot look up an event", err)
		s.putBack(job, a)
	}
	if !turn {
		return
	}
	task := inboxkit.Task{Attempt: job.Attempt, Object: a.Object, Newest: f.newest}
	task.Delivery, task.Err = s.delivery(job, a)
	// If the last attempt was lost, release has added an error. Otherwise a person retries the event.
	if n := len(job.Errors); job.Attempt > s.worker.Work().Retry.MaxAttempts && a.Failure == nil && n > 0 && job.Errors[n-1].Attempt == job.Attempt-1 {
		task.Attempt, task.Err = job.Attempt-1, webhook.ErrAbandoned
	}
	if malformed != nil {
		task.Err = webhook.Permanent(errors.New("riverinbox: job has no metadata of an event"))
	}
	ctx, done := inboxkit.WithTransaction(ctx, task, s.outcomes.inTransaction(job, a))
	_ = s.worker.Do(ctx, task, func(made webhook.Attempt) error { // Do has logged an error
		if done() {
			return nil
		}
		return s.outcomes.recordWithRetry(s.outcomes.of(job, a, made))
	})
}

// delivery decrypts the delivery of a job. With an error, it returns the delivery without a body.
func (s *attempts) delivery(job *river.Job[event], a about) (webhook.Delivery, error) {
	d := webhook.Delivery{Type: a.Type, ClinicID: a.Clinic, CreatedAt: a.Created, ReceivedAt: job.CreatedAt.UTC()}
	if err := d.Key.UnmarshalText([]byte(job.Args.Key)); err != nil {
		return d, webhook.Permanent(err)
	}
	var err error
	d.Body, err = inboxkit.OpenBody(s.seal, d.Key, job.Args.Body)
	return d, err
}

// fetched is a job to look up before its attempt.
type fetched struct {
	N           int         `json:"n"` // index in the query
	Job         int64       `json:"job"`
	At          *time.Time  `json:"at"`
	OrderingKey pgtype.UUID `json:"ordering_key"`
	Object      string      `json:"object"`

	held   bool      // the attempt was not overtaken
	head   bool      // the job is the head of its ordering key, and its oldest job
	newest time.Time // time of the newest event of the object
}

// begin reports whether the attempt was not overtaken, and the job is the head of its ordering key.
// Otherwise it makes the job pending.
func (s *attempts) begin(ctx context.Context, f *fetched, order time.Time) (turn bool, err error) {
	if err := s.begins.Do(ctx, f); err != nil || !f.held || f.head || !f.OrderingKey.Valid {
		return err == nil && f.held, err
	}
	turn, err = one[bool](ctx, s.database, "SELECT {s}.inbox_turn($1, $2, $3, $4)", f.OrderingKey, order, f.Job, f.At)
	s.bell.ring() // for another head
	return turn, err
}

// lookUp looks up jobs in one query.
func (s *attempts) lookUp(batch []*inboxkit.Write[*fetched]) {
	all := make([]*fetched, len(batch))
	for n, w := range batch {
		all[n], w.Value.N = w.Value, n
	}
	jobs, _ := json.Marshal(all) // cannot fail
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	found, err := collect(ctx, s.database, pgx.RowToStructByPos[struct {
		N          int
		Held, Head bool
		Newest     *time.Time
	}], `SELECT f.n, EXISTS (SELECT FROM {s}.river_job j WHERE j.id = f.job AND j.state = 'running' AND j.attempted_at = f.at),
			coalesce((SELECT l.job = f.job AND l.head FROM {s}.inbox_order l WHERE l.ordering_key = f.ordering_key ORDER BY l.order_at, l.job LIMIT 1), false),
			(SELECT n.at FROM {s}.inbox_newest n WHERE n.object = f.object)
		FROM jsonb_to_recordset($1) AS f (n integer, job bigint, at timestamptz, ordering_key uuid, object text)`, string(jobs))
	for _, f := range found {
		if all[f.N].held, all[f.N].head = f.Held, f.Head; f.Newest != nil {
			all[f.N].newest = f.Newest.UTC()
		}
	}
	finish(batch, err)
}

// putBack makes the job available again. The attempt does not count.
func (s *attempts) putBack(job *river.Job[event], a about) {
	err := s.outcomes.recordWithRetry(s.outcomes.of(job, a, webhook.Attempt{Number: job.Attempt, Result: webhook.ResultReturned}))
	s.warn("webhook inbox cannot make an event available again", err)
}

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

// UnmarshalJSON implements [json.Unmarshaler]. It returns no error, because River would end the attempt.
// Without its key, the event becomes a dead letter.
func (e *event) UnmarshalJSON(text []byte) error {
	type plain event
	_ = json.Unmarshal(text, (*plain)(e))
	return nil
}

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
