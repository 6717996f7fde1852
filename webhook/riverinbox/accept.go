package riverinbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// accepts stores accepted events.
type accepts struct {
	*database
	worker  *inboxkit.Worker
	seal    seal.AEAD
	bell    *bell
	batches *inboxkit.Batcher[*accept]
}

// accept is an event to store.
type accept struct {
	digest, orderingKey            pgtype.UUID
	createdAt, orderAt, receivedAt time.Time
	args, metadata                 string // pgx.QueryExecModeExec sends []byte as bytea

	fresh, busy bool // set by insert
}

// encode encrypts and encodes a delivery.
func (s *accepts) encode(d webhook.Delivery) (*accept, error) {
	key := d.Key.String()
	if len(key) > maxIndexed {
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, &api.ArgumentError{
			Field: "webhook.Delivery.Key", Reason: fmt.Sprintf("has %d bytes as text, and PostgreSQL can index %d", len(key), maxIndexed),
		})
	}
	body, err := inboxkit.SealBody(s.seal, d.Key, d.Body)
	if err != nil {
		return nil, err
	}
	about := about{Type: events.Type(text(string(d.Type))), Clinic: text(d.ClinicID), Created: d.CreatedAt.UTC()}
	orderingKey, object := s.worker.OrderingKeys(d)
	about.OrderingKey, about.Object = webhook.OrderingKey(text(string(orderingKey))), webhook.OrderingKey(text(string(object)))
	if orderingKey != "" {
		about.OrderAt = d.OrderTime().UTC().Truncate(time.Microsecond)
	}
	a := &accept{
		digest: keyDigest(key), orderingKey: about.orderingKey(), createdAt: d.CreatedAt.UTC(), orderAt: about.OrderAt,
		receivedAt: d.ReceivedAt.UTC().Truncate(time.Microsecond),
	}
	if d.CreatedAt.IsZero() {
		a.createdAt = a.receivedAt
	}
	args, _ := json.Marshal(event{Key: key, Body: body}) // cannot fail
	metadata, err := json.Marshal(about)
	if err != nil { // the year of a time has five digits
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, err)
	}
	a.args, a.metadata = string(args), string(metadata)
	return a, nil
}

// storeAll stores a batch. If the database rejects a row, storeAll stores both halves of the batch.
func (s *accepts) storeAll(batch []*inboxkit.Write[*accept]) {
	err := s.store(batch)
	if half := len(batch) / 2; rejected(err) && half > 0 {
		s.storeAll(batch[:half])
		s.storeAll(batch[half:])
		return
	}
	finish(batch, err)
}

// store stores a batch in one transaction. If it fails before the commit, because of a broken
// connection or a deadlock, it retries once.
func (s *accepts) store(batch []*inboxkit.Write[*accept]) error {
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	all := make([]*accept, len(batch))
	for n, w := range batch {
		all[n] = w.Value
	}
	err := s.insert(ctx, all)
	if err != nil && !rejected(err) && (code(err) != "" || pgconn.SafeToRetry(err)) {
		err = s.insert(ctx, all)
	}
	if err == nil && slices.ContainsFunc(all, func(a *accept) bool { return a.fresh }) {
		s.bell.ring()
	}
	return err
}

// insert stores events in a transaction.
func (s *accepts) insert(ctx context.Context, all []*accept) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.insertWith(ctx, conn, all)
}

// insertWith stores events. If several events have the same key, the first one is new.
func (s *accepts) insertWith(ctx context.Context, conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, all []*accept) error {
	byDigest := make(map[[16]byte]*accept, len(all))
	var digests, orderingKeys []pgtype.UUID
	var created, orders, arrivals []time.Time
	var args, metadata []string
	for _, a := range all {
		if a.fresh, a.busy = false, false; byDigest[a.digest.Bytes] != nil {
			continue
		}
		byDigest[a.digest.Bytes] = a
		digests, orderingKeys, created = append(digests, a.digest), append(orderingKeys, a.orderingKey), append(created, a.createdAt)
		orders, arrivals = append(orders, a.orderAt), append(arrivals, a.receivedAt)
		args, metadata = append(args, a.args), append(metadata, a.metadata)
	}
	rows, err := conn.Query(ctx, s.sql("SELECT * FROM {s}.inbox_accept($1, $2, $3, $4, $5, $6, $7, $8)"),
		digests, created, orderingKeys, orders, arrivals, args, metadata, s.worker.Work().Retry.MaxAttempts+1)
	if err != nil {
		return s.failed(err)
	}
	var digest [16]byte
	var busy bool
	_, err = pgx.ForEachRow(rows, []any{&digest, &busy}, func() error {
		byDigest[digest].fresh, byDigest[digest].busy = !busy, busy
		return nil
	})
	if err != nil {
		return s.failed(err)
	}
	for _, a := range all {
		a.busy = byDigest[a.digest.Bytes].busy
	}
	return nil
}
