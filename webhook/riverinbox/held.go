package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// claimedEvents are the events with their claims.
const claimedEvents = "{inbox} e LEFT JOIN {claims} c ON c.event = e.key"

// selection reads columns, and due_at and seq, of the rows that a filter matches. Each
// state of rows has a query of its own, because each has its range of the index in order;
// with a lock there can be one only. Without a limit, which is 0, they come in any order.
func selection(columns string, f engine.Filter, after engine.Position, limit int, lock string) (query string, args []any) {
	value := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	var conditions []string
	where := func(condition string) { conditions = append(conditions, condition) }
	if f.Keys != nil {
		texts := make([]string, len(f.Keys))
		for n, key := range f.Keys {
			texts[n] = key.String()
		}
		where("key = ANY (" + value(texts) + ")")
	}
	for _, equal := range [][2]string{{"type", string(f.Type)}, {"clinic_id", f.ClinicID}, {"reason", f.Reason}} {
		if equal[1] != "" {
			where(equal[0] + " = " + value(text(equal[1])))
		}
	}
	if !f.ReceivedFrom.IsZero() {
		where("received_at >= " + value(f.ReceivedFrom))
	}
	if !f.ReceivedBefore.IsZero() {
		where("received_at < " + value(f.ReceivedBefore))
	}
	if !f.Until.IsZero() {
		where("(due_at, seq) <= (" + value(f.Until.At) + ", " + value(f.Until.Seq) + ")")
	}
	if !after.IsZero() {
		where("(due_at, seq) > (" + value(after.At) + ", " + value(after.Seq) + ")")
	}
	order := ""
	if limit > 0 {
		order = " ORDER BY due_at, seq LIMIT " + value(limit)
	}
	var parts []string
	for _, condition := range rowStates(f.States) {
		parts = append(parts, "(SELECT "+columns+", due_at, seq FROM "+claimedEvents+" WHERE "+
			strings.Join(append(conditions, condition), " AND ")+order+lock+")")
	}
	if len(parts) == 1 {
		return parts[0], args
	}
	return strings.Join(parts, " UNION ALL ") + order, args
}

// rowStates are conditions for the rows that hold events in these states; for all that are
// held if there is none.
func rowStates(of []engine.State) (conditions []string) {
	has := func(state engine.State) bool { return of == nil || slices.Contains(of, state) }
	switch waiting, running := has(engine.StateWaiting), has(engine.StateRunning); {
	case waiting && running:
		conditions = []string{"e.state = 1", "e.state = 2"}
	case waiting:
		conditions = []string{"e.state = 1 AND c.event IS NULL", "e.state = 2 AND c.event IS NULL"}
	case running:
		conditions = []string{"e.state = 1 AND c.event IS NOT NULL", "e.state = 2 AND c.event IS NOT NULL"}
	}
	if has(engine.StateDead) {
		conditions = append(conditions, "e.state = 4")
	}
	if conditions == nil {
		return []string{"false"}
	}
	return conditions
}

// listed are the columns that scanEvent reads.
const listed = `CASE WHEN e.state = 4 THEN 'dead' WHEN c.event IS NOT NULL THEN 'running' ELSE 'waiting' END,
	key, type, clinic_id, created_at, received_at, coalesce(c.attempt, e.attempts), coalesce(e.subject, ''), coalesce(reason, '')`

// scanEvent reads a listed row.
func scanEvent(row pgx.CollectableRow) (e engine.Event, err error) {
	var key string
	var createdAt *time.Time
	err = row.Scan(&e.State, &key, &e.Type, &e.ClinicID, &createdAt, &e.ReceivedAt, &e.Attempts, &e.OrderingKey, &e.Reason, &e.Position.At, &e.Position.Seq)
	if err != nil {
		return e, err
	}
	e.Position.At, e.ReceivedAt = e.Position.At.UTC(), e.ReceivedAt.UTC()
	if createdAt != nil {
		e.CreatedAt = createdAt.UTC()
	}
	return e, e.Key.UnmarshalText([]byte(key))
}

// List implements [engine.Engine].
func (i *Inbox) List(ctx context.Context, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	query, args := selection(listed, f, after, limit, "")
	rows, err := i.pool.Query(ctx, i.sql(query), args...)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	return all, nil
}

// Count implements [engine.Engine].
func (i *Inbox) Count(ctx context.Context, f engine.Filter, most int) (c engine.Counts, err error) {
	if i.life.Stopped() {
		return c, webhook.ErrInboxClosed
	}
	query, args := selection("1", f, engine.Position{}, most, "")
	err = i.pool.QueryRow(ctx, i.sql("SELECT due_at, seq FROM ("+query+") selected ORDER BY due_at DESC, seq DESC LIMIT 1"), args...).
		Scan(&c.Until.At, &c.Until.Seq)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return engine.Counts{}, nil
	case err != nil:
		return engine.Counts{}, fmt.Errorf("riverinbox: %w", err)
	}
	c.Until.At = c.Until.At.UTC()
	f.Until = c.Until
	query, args = selection("type, clinic_id, coalesce(reason, '') AS reason, received_at", f, engine.Position{}, 0, "")
	rows, err := i.pool.Query(ctx, i.sql("SELECT type, clinic_id, reason, count(*), min(received_at) FROM ("+query+") selected GROUP BY 1, 2, 3"), args...)
	if err != nil {
		return engine.Counts{}, fmt.Errorf("riverinbox: %w", err)
	}
	var kind events.Type
	var clinic, reason string
	var n int
	var oldest time.Time
	_, err = pgx.ForEachRow(rows, []any{&kind, &clinic, &reason, &n, &oldest}, func() error {
		c.Add(kind, clinic, reason, n, oldest.UTC())
		return nil
	})
	if err != nil {
		return engine.Counts{}, fmt.Errorf("riverinbox: %w", err)
	}
	return c, nil
}

// Open implements [engine.Engine].
func (i *Inbox) Open(ctx context.Context, key webhook.Key) (engine.Event, error) {
	return engine.OpenEvent(ctx, i, i.config.Seal, key, func(engine.Event) (body, failure []byte, err error) {
		err = i.pool.QueryRow(ctx, i.sql("SELECT "+storedBody+", error FROM {inbox} e WHERE key = $1 AND state <> 3"), key.String()).Scan(&body, &failure)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			err = engine.ErrNotHeld // any more
		case err != nil:
			err = fmt.Errorf("riverinbox: %w", err)
		}
		return body, failure, err
	})
}

// Replay implements [engine.Engine]. Each event gets a new job.
func (i *Inbox) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, `
		UPDATE {inbox} e SET state = 1, due_at = now(), attempts = 0, reason = NULL, error = NULL
		FROM dead WHERE e.key = dead.key RETURNING e.key, coalesce(e.subject, '')`,
		func(ctx context.Context, tx pgx.Tx, partitions []partition) error {
			return i.insertJobs(ctx, tx, partitions)
		})
}

// Discard implements [engine.Engine].
func (i *Inbox) Discard(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, ", "+settling("e.key IN (SELECT key FROM dead) AND e.state = 4")+`
		SELECT key, coalesce(subject, '') FROM settled UNION ALL SELECT key, coalesce(subject, '') FROM kept`,
		func(context.Context, pgx.Tx, []partition) error { return nil })
}

// revise changes dead letters by the rest of a statement, each batch of them in a transaction. Rows are locked in
// the order of their positions, so that none waits for another that waits for it.
func (i *Inbox) revise(ctx context.Context, f engine.Filter, change string, then func(context.Context, pgx.Tx, []partition) error) (int, error) {
	return engine.InBatches(ctx, i, f, func(ctx context.Context, part engine.Filter) (int, error) {
		if i.life.Stopped() {
			return 0, webhook.ErrInboxClosed
		}
		ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
		query, args := selection("key", part, engine.Position{}, len(part.Keys), " FOR UPDATE OF e")
		var changed []partition
		err := pgx.BeginFunc(ctx, i.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, i.sql("WITH dead AS MATERIALIZED ("+query+")"+change), args...)
			if err != nil {
				return fmt.Errorf("riverinbox: %w", err)
			}
			changed, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (partition, error) {
				var r newRow
				err := row.Scan(&r.key, &r.subject)
				return r.partition(), err
			})
			if err != nil {
				return fmt.Errorf("riverinbox: %w", err)
			}
			return then(ctx, tx, changed)
		})
		if err != nil {
			return 0, err
		}
		return len(changed), nil
	})
}
