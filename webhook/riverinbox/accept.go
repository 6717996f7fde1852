package riverinbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	transactionTimeout = 30 * time.Second
	groupSize          = 64 // writes in a transaction: each can lock an ordering key, and a database has several thousand locks
)

// accept is an event to store.
type accept struct {
	digest, orderingKey pgtype.UUID
	day                 *time.Time // in the ledger; nil if the ledger has no partition for it
	orderAt, receivedAt time.Time
	args, metadata      string // pgx.QueryExecModeExec sends []byte as bytea

	fresh bool // set by insert
}

// newGroup returns a batcher of transactions. size can be nil.
func newGroup[T any](size func(T) int, commit func([]*inboxkit.Write[T])) *inboxkit.Batcher[T] {
	return inboxkit.NewBatcher(inboxkit.BatcherConfig[T]{
		Commit: commit, Size: size, Limit: func([]*inboxkit.Write[T], time.Duration) int { return groupSize },
	})
}

// Accept implements [webhook.Inbox]. Concurrent calls share a transaction. Errors:
// [webhook.ErrInboxClosed], the error of ctx, [webhook.ErrUnstorable] for a key of more than 2,600
// bytes, and errors of the database without data of the event.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	a, err := i.newAccept(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	if err := i.accepts.Do(ctx, a); err != nil {
		return webhook.Receipt{}, err
	}
	return webhook.Receipt{Duplicate: !a.fresh}, nil
}

// newAccept encrypts and encodes a delivery.
func (i *Inbox) newAccept(d webhook.Delivery) (*accept, error) {
	key := d.Key.String()
	if len(key) > maxIndexed {
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, &api.ArgumentError{
			Field: "webhook.Delivery.Key", Reason: fmt.Sprintf("has %d bytes as text, and PostgreSQL can index %d", len(key), maxIndexed),
		})
	}
	body, err := inboxkit.SealBody(i.config.Seal, d.Key, d.Body)
	if err != nil {
		return nil, err
	}
	about := about{Type: events.Type(text(string(d.Type))), Clinic: text(d.ClinicID), Created: d.CreatedAt.UTC()}
	orderingKey, object := i.worker.OrderingKeys(d)
	about.OrderingKey, about.Object = webhook.OrderingKey(text(string(orderingKey))), webhook.OrderingKey(text(string(object)))
	if orderingKey != "" {
		about.OrderAt = d.OrderTime().UTC().Truncate(time.Microsecond)
	}
	a := &accept{digest: keyDigest(key), orderingKey: about.orderingKey(), day: i.dayOf(d.CreatedAt), orderAt: about.OrderAt, receivedAt: d.ReceivedAt.UTC().Truncate(time.Microsecond)}
	args, _ := json.Marshal(event{Key: key, Body: body}) // cannot fail
	metadata, err := json.Marshal(about)
	if err != nil { // the year of a time has five digits
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, err)
	}
	a.args, a.metadata = string(args), string(metadata)
	return a, nil
}

func answer[T any](batch []*inboxkit.Write[T], err error) {
	for _, w := range batch {
		w.Done(err)
	}
}

// Error codes of PostgreSQL.
const (
	lockNotAvailable = "55P03"
	checkViolation   = "23514" // also for a row without a partition
)

// code returns the code of an error of PostgreSQL, or an empty string.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// refused reports whether the database rejected a row or could not lock it.
func refused(err error) bool {
	return strings.HasPrefix(code(err), "22") || strings.HasPrefix(code(err), "23") || code(err) == lockNotAvailable
}

// storeAll stores a batch. If the database rejects a row, storeApart stores the batch while
// storeAll continues with the next one.
func (i *Inbox) storeAll(batch []*inboxkit.Write[*accept]) {
	if err := i.store(batch); refused(err) {
		i.apart.Go(func() { i.storeApart(batch) })
	} else {
		answer(batch, err)
	}
}

// storeApart splits a batch until each rejected event is alone, and stores the others. If another
// transaction has locked a key, storeApart retries until that transaction or the caller's context
// ends. It uses one connection at a time.
func (i *Inbox) storeApart(batch []*inboxkit.Write[*accept]) {
	for batch = inboxkit.StillWanted(batch); len(batch) > 0; batch = inboxkit.StillWanted(batch) {
		i.apart.Lock()
		err := i.store(batch)
		i.apart.Unlock()
		switch half := len(batch) / 2; {
		case half == 0 && code(err) == checkViolation && batch[0].Value.day != nil:
			batch[0].Value.day = nil // another process has dropped the partition
		case !refused(err), half == 0 && code(err) != lockNotAvailable:
			answer(batch, err)
			return
		case half > 0:
			first := batch[:half:half]
			i.apart.Go(func() { i.storeApart(first) })
			batch = batch[half:]
		case i.life.Stopped():
			answer(batch, webhook.ErrInboxClosed)
			return
		}
	}
}

// store stores a batch in one transaction. If it fails before the commit, because of a broken
// connection or a deadlock, it retries once.
func (i *Inbox) store(batch []*inboxkit.Write[*accept]) error {
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	all := make([]*accept, len(batch))
	for n, w := range batch {
		all[n] = w.Value
	}
	err := i.insert(ctx, i.pool, all)
	if err != nil && !refused(err) && (code(err) != "" || pgconn.SafeToRetry(err)) {
		err = i.insert(ctx, i.pool, all)
	}
	if err == nil && slices.ContainsFunc(all, func(a *accept) bool { return a.fresh }) {
		i.wake()
	}
	return err
}

// insert stores events. A pgx batch is one transaction. If several events have the same key, the
// first one is new.
func (i *Inbox) insert(ctx context.Context, to interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}, all []*accept) error {
	byDigest := make(map[[16]byte]*accept, len(all))
	var digests, orderingKeys []pgtype.UUID
	var days []*time.Time
	var orders, arrivals []time.Time
	var args, metadata []string
	for _, a := range all {
		if a.fresh = false; byDigest[a.digest.Bytes] != nil {
			continue
		}
		byDigest[a.digest.Bytes] = a
		digests, orderingKeys, days = append(digests, a.digest), append(orderingKeys, a.orderingKey), append(days, a.day)
		orders, arrivals = append(orders, a.orderAt), append(arrivals, a.receivedAt)
		args, metadata = append(args, a.args), append(metadata, a.metadata)
	}
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('lock_timeout', '20', true)") // in ms: other processes hold the locks for less
	batch.Queue(i.sql("SELECT {s}.inbox_accept($1, $2, $3, $4, $5, $6, $7, $8)"),
		digests, days, orderingKeys, orders, arrivals, args, metadata, i.worker.Work().Retry.MaxAttempts+1).Query(func(rows pgx.Rows) error {
		var fresh [16]byte
		_, err := pgx.ForEachRow(rows, []any{&fresh}, func() error {
			byDigest[fresh].fresh = true
			return nil
		})
		return err
	})
	if err := to.SendBatch(ctx, batch).Close(); err != nil {
		return i.failed(err)
	}
	return nil
}
