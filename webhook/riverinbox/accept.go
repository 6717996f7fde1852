package riverinbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// transactionTimeout ends a transaction that the database does not.
const transactionTimeout = 30 * time.Second

// groupSize is how many accepts, or outcomes, share a transaction. Each may hold the lock of a
// line, of which a database has some thousands.
const groupSize = 64

// accept is an event on its way into the tables.
type accept struct {
	digest, line   pgtype.UUID
	day            *time.Time // of the ledger; nil if there is none
	order          time.Time
	args, metadata []byte

	fresh bool // set when it is stored
}

type acceptWrite = engine.Write[*accept]

// Accept implements [webhook.Inbox]: when it returns, event and job have been committed.
// Deliveries that wait at the same time share a transaction. It fails with
// [webhook.ErrInboxClosed], with that of ctx, with [webhook.ErrUnstorable] for a key of more than
// 2,600 bytes, and with errors of the database, which hold nothing of the event.
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

// The patience of accepts with a key or a line that another transaction has locked. Together they
// wait for the transaction of another replica, and apart for one that takes longer.
const (
	patienceTogether = 20 * time.Millisecond
	patienceApart    = 100 * time.Millisecond
)

// newAccepts returns the group commit of accepts. What the database refuses together is accepted
// apart, by one connection, while the next batches go on.
func (i *Inbox) newAccepts() *engine.Batcher[*accept] {
	var apart sync.WaitGroup
	turn := make(chan struct{}, 1)
	return engine.NewBatcher(engine.BatcherConfig[*accept]{
		Commit: func(batch []*acceptWrite) {
			if err := i.store(batch, patienceTogether); refused(err) {
				apart.Go(func() { i.storeApart(batch, turn) })
			} else {
				answer(batch, err)
			}
		},
		Size:  func(a *accept) int { return len(a.args) },
		Limit: func([]*acceptWrite, time.Duration) int { return groupSize },
		Drain: apart.Wait,
	})
}

// newAccept makes of a delivery what a batch stores.
func (i *Inbox) newAccept(d webhook.Delivery) (*accept, error) {
	key := d.Key.String()
	if len(key) > maxIndexed {
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, &api.ArgumentError{
			Field: "webhook.Delivery.Key", Reason: fmt.Sprintf("has %d bytes as text, and PostgreSQL can index %d", len(key), maxIndexed),
		})
	}
	body, err := engine.SealBody(i.config.Seal, d.Key, d.Body)
	if err != nil {
		return nil, err
	}
	about := about{Type: events.Type(text(string(d.Type))), Clinic: text(d.ClinicID), Created: d.CreatedAt.UTC(), Received: d.ReceivedAt.UTC()}
	subject, object := i.worker.OrderingKeys(d)
	if about.Subject, about.Object = short(subject), short(object); subject != "" {
		about.Order = d.OrderTime().UTC().Truncate(time.Microsecond)
	}
	a := &accept{digest: digestOf(key), line: about.line(), day: i.days.of(d.CreatedAt), order: about.Order}
	var bad error // a time that JSON cannot have
	a.args, err = json.Marshal(event{Key: key, Body: body})
	if a.metadata, bad = json.Marshal(about); err != nil || bad != nil {
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, errors.Join(err, bad))
	}
	return a, nil
}

func answer[T any](batch []*engine.Write[T], err error) {
	for _, w := range batch {
		w.Done(err)
	}
}

// refused reports that the database has something against one of the rows.
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code[:2] == "22" || e.Code[:2] == "23" || e.Code == lockNotAvailable)
}

const lockNotAvailable = "55P03"

// storeApart finds out which events the database refuses, and stores the others. One whose key is
// in another transaction is tried again until that ends, or its caller gives up.
func (i *Inbox) storeApart(batch []*acceptWrite, turn chan struct{}) {
	for batch = engine.StillWanted(batch); len(batch) > 0; batch = engine.StillWanted(batch) {
		turn <- struct{}{}
		err := i.store(batch, patienceApart)
		<-turn
		var e *pgconn.PgError
		switch half := len(batch) / 2; {
		case !refused(err):
			answer(batch, err)
			return
		case half > 0:
			i.storeApart(batch[:half:half], turn)
			batch = batch[half:]
		case !errors.As(err, &e) || e.Code != lockNotAvailable:
			answer(batch, err)
			return
		case i.life.Stopped():
			answer(batch, webhook.ErrInboxClosed)
			return
		}
	}
}

// store stores a batch in one transaction. Where it fails before the commit, because a
// connection has died or two replicas blocked each other, it tries once more. What a commit
// without an answer has done is not known.
func (i *Inbox) store(batch []*acceptWrite, patience time.Duration) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	all := make([]*accept, len(batch))
	for n, w := range batch {
		all[n] = w.Value
	}
	err := i.insert(ctx, i.pool, all, patience)
	if err != nil && !refused(err) && neverSent(err) {
		err = i.insert(ctx, i.pool, all, patience)
	}
	if err == nil && slices.ContainsFunc(all, func(a *accept) bool { return a.fresh }) {
		i.wake()
	}
	return err
}

// neverSent reports that the database has not committed: it said so, or was not asked.
func neverSent(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) || pgconn.SafeToRetry(err)
}

// insert stores events, in a transaction which a batch of statements is without saying so. Of
// several with one key the first is new.
func (i *Inbox) insert(ctx context.Context, to interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}, all []*accept, patience time.Duration) error {
	byDigest := make(map[[16]byte]*accept, len(all))
	var digests, lines []pgtype.UUID
	var days []*time.Time
	var orders []time.Time
	var args, metadata [][]byte
	for _, a := range all {
		if a.fresh = false; byDigest[a.digest.Bytes] != nil {
			continue
		}
		byDigest[a.digest.Bytes] = a
		digests, lines, days = append(digests, a.digest), append(lines, a.line), append(days, a.day)
		orders, args, metadata = append(orders, a.order), append(args, a.args), append(metadata, a.metadata)
	}
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(patience.Milliseconds(), 10))
	batch.Queue(i.sql("SELECT {s}.inbox_accept($1, $2, $3, $4, $5, $6, $7)"),
		digests, days, lines, orders, args, metadata, i.worker.Work().Retry.MaxAttempts+1).Query(func(rows pgx.Rows) error {
		var fresh [16]byte
		_, err := pgx.ForEachRow(rows, []any{&fresh}, func() error {
			byDigest[fresh].fresh = true
			return nil
		})
		return err
	})
	if err := to.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	return nil
}
