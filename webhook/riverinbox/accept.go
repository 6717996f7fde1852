package riverinbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Accept implements [webhook.Inbox]: when it returns, event and job have been
// committed. Deliveries that wait at the same time share a transaction. It fails
// with [webhook.ErrInboxClosed], with that of ctx, with [webhook.ErrUnstorable] for
// a key of more than 2,600 bytes, and with errors of the database, which hold
// nothing of the event.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	// Everything that can be done by many at a time is done before the
	// transaction that they share.
	row, err := i.newRow(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	duplicate, err := i.writer.store(ctx, row)
	return webhook.Receipt{Duplicate: duplicate}, err
}

// AcceptTx is Accept in a transaction of the program's own: the event is there,
// and is handled, once the program has committed it, together with whatever else
// it wrote. Acknowledge it after that and not before.
//
// Of two transactions that accept one event, the second waits for the end of the
// first. After an error the transaction can only be rolled back.
func (i *Inbox) AcceptTx(ctx context.Context, tx pgx.Tx, d webhook.Delivery) (webhook.Receipt, error) {
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	row, err := i.newRow(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	fresh, err := i.insert(ctx, tx, []*newRow{row}, func(*pgx.Batch) {})
	if err != nil {
		return webhook.Receipt{}, err
	}
	return webhook.Receipt{Duplicate: len(fresh) == 0}, nil
}

// newRow is an event on its way into the table.
type newRow struct {
	key      string
	delivery webhook.Delivery
	subject  string
	object   string
	body     []byte

	duplicate bool // set when it is stored
}

func (i *Inbox) newRow(d webhook.Delivery) (*newRow, error) {
	key := d.Key.String()
	if len(key) > maxIndexed {
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, &api.ArgumentError{
			Field: "webhook.Delivery.Key", Reason: fmt.Sprintf("has %d bytes as text, and PostgreSQL can index %d", len(key), maxIndexed),
		})
	}
	r := &newRow{key: key, delivery: d}
	subject, object := i.worker.OrderingKeys(d)
	r.subject, r.object = indexed(string(subject)), indexed(string(object))
	var err error
	r.body, err = engine.SealBody(i.config.Seal, d.Key, d.Body)
	r.delivery.Body = nil
	return r, err
}

// text makes a string one that PostgreSQL takes. What it changes is not worth
// refusing an event for: the body has it as it was.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// maxIndexed is how many bytes a text may have that is in an index, of whose pages
// three entries have to fit into one.
const maxIndexed = 2600

// indexed makes a string one that PostgreSQL can index. Of subjects it matters only
// which are the same: one that is too long is represented by its digest.
func indexed(s string) string {
	if s = text(s); len(s) <= maxIndexed {
		return s
	}
	digest := sha256.Sum256([]byte(s))
	return hex.EncodeToString(digest[:])
}

// insertQuery stores the events that are new and returns their keys. ON CONFLICT
// alone would wait for every transaction that has changed the row of an event: one
// that can be seen to be there is left out before. It is counted so that it is
// looked up in the index, whatever plan was made when the table was small.
const insertQuery = `INSERT INTO {inbox} (key, type, clinic_id, created_at, received_at, order_at, subject, object, state, due_at, body)
	SELECT key, type, clinic_id, created_at, received_at, order_at, nullif(subject, ''), nullif(object, ''), 1, now(), body
	FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::text[], $9::bytea[])
	AS new (key, type, clinic_id, created_at, received_at, order_at, subject, object, body)
	WHERE (SELECT count(*) FROM {inbox} e WHERE e.key = new.key) = 0
	ON CONFLICT (key) DO NOTHING RETURNING key`

// insert stores events, with a job for each that is new and whatever also adds in
// between, and returns the keys of those. All replicas insert in the order of the
// keys, so that none waits for another that waits for it.
func (i *Inbox) insert(ctx context.Context, tx pgx.Tx, rows []*newRow, also func(*pgx.Batch)) (fresh map[string]bool, err error) {
	slices.SortFunc(rows, func(a, b *newRow) int { return cmp.Compare(a.key, b.key) })
	var keys []string
	batch := &pgx.Batch{}
	batch.Queue(i.sql(insertQuery), columnsOf(rows)...).Query(func(found pgx.Rows) (err error) {
		keys, err = pgx.CollectRows(found, pgx.RowTo[string])
		return err
	})
	also(batch)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	fresh = make(map[string]bool, len(keys))
	for _, key := range keys {
		fresh[key] = true
	}
	var lines []line
	for n, row := range rows {
		if fresh[row.key] && (n == 0 || rows[n-1].key != row.key) {
			lines = append(lines, row.line())
		}
	}
	return fresh, i.call(ctx, tx, lines)
}

// columnsOf turns rows into the columns that insertQuery takes.
func columnsOf(rows []*newRow) []any {
	n := len(rows)
	keys, types, clinics := make([]string, n), make([]string, n), make([]string, n)
	created, received, ordered := make([]*time.Time, n), make([]time.Time, n), make([]time.Time, n)
	subjects, objects, bodies := make([]string, n), make([]string, n), make([][]byte, n)
	for at, r := range rows {
		keys[at], types[at], clinics[at] = r.key, text(string(r.delivery.Type)), text(r.delivery.ClinicID)
		if !r.delivery.CreatedAt.IsZero() {
			created[at] = &r.delivery.CreatedAt
		}
		received[at], ordered[at] = r.delivery.ReceivedAt, r.delivery.OrderTime()
		subjects[at], objects[at], bodies[at] = r.subject, r.object, r.body
	}
	return []any{keys, types, clinics, created, received, ordered, subjects, objects, bodies}
}

func (r *newRow) line() line {
	if r.subject != "" {
		return line{Subject: r.subject}
	}
	return line{Event: r.key}
}

// call inserts a job for each line, which makes a worker come. River has a faster
// way for thousands of jobs, which costs more round trips: it is slower here.
func (i *Inbox) call(ctx context.Context, tx pgx.Tx, lines []line) error {
	if len(lines) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(lines))
	for n, l := range lines {
		jobs[n] = river.InsertManyParams{Args: l, InsertOpts: &i.jobs}
	}
	if _, err := i.client.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("riverinbox: inserting jobs: %w", err)
	}
	return nil
}

// columns are what a delivery is read from; storedRow has them.
const columns = "e.key, e.type, e.clinic_id, e.created_at, e.received_at, e.body"

type storedRow struct {
	key, kind, clinicID string
	createdAt           *time.Time
	receivedAt          time.Time
	body                []byte
}

func (s *storedRow) into() []any {
	return []any{&s.key, &s.kind, &s.clinicID, &s.createdAt, &s.receivedAt, &s.body}
}

// delivery opens the body. A delivery whose body does not open is returned
// without it, with the error.
func (i *Inbox) delivery(s *storedRow) (webhook.Delivery, error) {
	d := webhook.Delivery{Type: events.Type(s.kind), ClinicID: s.clinicID, ReceivedAt: s.receivedAt.UTC()}
	if s.createdAt != nil {
		d.CreatedAt = s.createdAt.UTC()
	}
	if err := d.Key.UnmarshalText([]byte(s.key)); err != nil {
		return d, err
	}
	var err error
	d.Body, err = engine.OpenBody(i.config.Seal, d.Key, s.body)
	return d, err
}
