package sqlinbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// states are those of rows, by the state of an event that is in them.
var states = map[engine.State][]int{
	engine.StateWaiting: {stateBlocked, stateReady},
	engine.StateRunning: {stateRunning},
	engine.StateDead:    {stateDead},
}

// selection reads columns, and due_at and seq, of the rows that a filter matches. Each
// state has a query of its own, because each has its range of the index in order.
// Without a limit, which is 0, they come in any order.
func selection(columns string, f engine.Filter, after engine.Position, limit int) (query string, args []any) {
	conditions, values := matching(f)
	if !after.IsZero() {
		conditions, values = append(conditions, "(due_at, seq) > (?, ?)"), append(values, after.At.UnixMicro(), after.Seq)
	}
	order, bound := "", []any(nil)
	if limit > 0 {
		order, bound = " ORDER BY due_at, seq LIMIT ?", []any{limit}
	}
	one := "SELECT * FROM (SELECT " + columns + ", due_at, seq FROM dispensary_inbox WHERE " + strings.Join(conditions, " AND ") + order + ")"
	var parts []string
	for _, state := range rowStates(f) {
		values[0] = state
		parts, args = append(parts, one), slices.Concat(args, values, bound)
	}
	return strings.Join(parts, " UNION ALL ") + order, append(args, bound...)
}

// matching returns the conditions of a filter. The first one is for the state, of which the
// value is still missing.
func matching(f engine.Filter) (conditions []string, values []any) {
	conditions, values = []string{"state = ?"}, []any{0}
	where := func(condition string, value ...any) {
		conditions, values = append(conditions, condition), append(values, value...)
	}
	if f.Keys != nil {
		texts := make([]string, len(f.Keys))
		for n, key := range f.Keys {
			texts[n] = key.String()
		}
		list, _ := json.Marshal(texts) // texts can be
		where("key IN (SELECT value FROM json_each(?))", string(list))
		conditions[0] = "+state = ?" // the index of keys is the one to use
	}
	for _, equal := range [][2]string{{"type", string(f.Type)}, {"clinic_id", f.ClinicID}, {"reason", f.Reason}} {
		if equal[1] != "" {
			where(equal[0]+" = ?", equal[1])
		}
	}
	if f.ID != "" {
		where("(instr(key, ?) > 0 OR EXISTS (SELECT 1 FROM json_each(failures) WHERE instr(json_extract(value, '$.request_id'), ?) > 0))", f.ID, f.ID)
	}
	for _, bound := range []struct {
		condition string
		at        time.Time
	}{
		{"received_at >= ?", f.ReceivedFrom},
		{"received_at < ?", f.ReceivedBefore},
		{"due_at >= ?", f.GivenUpFrom},
		{"due_at < ?", f.GivenUpBefore},
	} {
		if !bound.at.IsZero() {
			where(bound.condition, bound.at.UnixMicro())
		}
	}
	if !f.Until.IsZero() {
		where("(due_at, seq) <= (?, ?)", f.Until.At.UnixMicro(), f.Until.Seq)
	}
	return conditions, values
}

// rowStates are the states of rows that hold events that a filter may match.
func rowStates(f engine.Filter) (all []int) {
	of, onlyDead := f.States, !f.GivenUpFrom.IsZero() || !f.GivenUpBefore.IsZero()
	if of == nil {
		of = []engine.State{engine.StateWaiting, engine.StateRunning, engine.StateDead}
	}
	for _, state := range of {
		if state == engine.StateDead || !onlyDead {
			all = append(all, states[state]...)
		}
	}
	if len(all) == 0 {
		return []int{0} // no row is in it
	}
	return all
}

// listed are the columns that scanEvent reads.
const listed = "state, key, type, clinic_id, created_at, received_at, attempts, coalesce(ordering_key, ''), coalesce(reason, ''), failures"

// scanEvent reads a listed row.
func scanEvent(row *sql.Rows) (e engine.Event, err error) {
	var key string
	var due, receivedAt int64
	var state int
	var createdAt sql.NullInt64
	err = row.Scan(&state, &key, &e.Type, &e.ClinicID, &createdAt, &receivedAt, &e.Attempts, &e.OrderingKey, &e.Reason, (*failures)(&e.Failures), &due, &e.Position.Seq)
	if err != nil {
		return e, err
	}
	e.Position.At, e.ReceivedAt = time.UnixMicro(due).UTC(), time.UnixMicro(receivedAt).UTC()
	if createdAt.Valid {
		e.CreatedAt = time.UnixMicro(createdAt.Int64).UTC()
	}
	for of, rows := range states {
		if slices.Contains(rows, state) {
			e.State = of
		}
	}
	return e, e.Key.UnmarshalText([]byte(key))
}

// List implements [engine.Engine].
func (i *Inbox) List(ctx context.Context, f engine.Filter, after engine.Position, limit int) (all []engine.Event, err error) {
	query, args := selection(listed, f, after, limit)
	err = i.each(ctx, query, args, func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		all = append(all, e)
		return err
	})
	return all, err
}

// Count implements [engine.Engine].
func (i *Inbox) Count(ctx context.Context, f engine.Filter, most int) (c engine.Counts, err error) {
	query, args := selection("1", f, engine.Position{}, most)
	err = i.each(ctx, "SELECT due_at, seq FROM ("+query+") ORDER BY due_at DESC, seq DESC LIMIT 1", args, func(rows *sql.Rows) error {
		var due int64
		err := rows.Scan(&due, &c.Until.Seq)
		c.Until.At = time.UnixMicro(due).UTC()
		return err
	})
	if err != nil || c.Until.IsZero() {
		return c, err
	}
	f.Until = c.Until
	query, args = selection("type, clinic_id, reason, received_at", f, engine.Position{}, 0)
	err = i.each(ctx, "SELECT type, clinic_id, coalesce(reason, ''), count(*), min(received_at), min(due_at), max(due_at) FROM ("+query+") GROUP BY 1, 2, 3",
		args, func(rows *sql.Rows) error {
			var g engine.Group
			var oldest, first, last int64
			err := rows.Scan(&g.Type, &g.ClinicID, &g.Reason, &g.Events, &oldest, &first, &last)
			g.Oldest, g.First, g.Last = time.UnixMicro(oldest).UTC(), time.UnixMicro(first).UTC(), time.UnixMicro(last).UTC()
			c.Add(g)
			return err
		})
	return c, err
}

// each reads rows, beside what the writer does.
func (i *Inbox) each(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	if err := i.readable(); err != nil {
		return err
	}
	rows, err := i.db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return eachRow(rows, scan)
}

// Open implements [engine.Engine].
func (i *Inbox) Open(ctx context.Context, key webhook.Key) (engine.Event, error) {
	return engine.OpenEvent(ctx, i, i.config.Seal, key, func(e engine.Event) (body, failure []byte, err error) {
		err = i.db.QueryRowContext(ctx, "SELECT body, error FROM dispensary_inbox_bodies WHERE seq = ?", e.Position.Seq).Scan(&body, &failure)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			err = engine.ErrNotStored // any more
		case err != nil:
			err = fmt.Errorf("sqlinbox: %w", err)
		}
		return body, failure, err
	})
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateDead, "SET state = iif(ordering_key IS NULL, 3, 2), due_at = ?, attempts = 0, reason = NULL", func(t *tx, seq int64, orderingKey string) error {
		t.ready = true
		err := t.exec("UPDATE dispensary_inbox_bodies SET error = NULL WHERE seq = ?", seq)
		if err == nil && orderingKey != "" {
			err = promoteHead(t, orderingKey)
		}
		return err
	})
}

// Discard implements [engine.Engine].
func (i *Inbox) Discard(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateDead, "SET state = 6, due_at = ?, failures = NULL", func(t *tx, seq int64, _ string) error { return drop(t, seq) })
}

// HandleNow implements [engine.Engine].
func (i *Inbox) HandleNow(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateWaiting, "SET due_at = ?", func(t *tx, _ int64, _ string) error {
		t.ready = true
		return nil
	})
}

// revise changes dead letters, or waiting events that are not due, each batch of them in a
// transaction: set is what is changed of all, and each is called for every one.
func (i *Inbox) revise(
	ctx context.Context, f engine.Filter, state engine.State, set string, each func(t *tx, seq int64, orderingKey string) error,
) (int, error) {
	return engine.InBatches(ctx, i, f, state, engine.After(state, i.config.now()), func(ctx context.Context, part engine.Filter) (int, error) {
		return valueOf(ctx, i.writer.do, func(t *tx) (int, error) {
			query, args := selection("1", part, engine.After(state, i.config.now()), 0)
			changed := map[int64]string{}
			err := t.each("UPDATE dispensary_inbox "+set+" WHERE seq IN (SELECT seq FROM ("+query+")) RETURNING seq, coalesce(ordering_key, '')",
				append([]any{i.now()}, args...), func(rows *sql.Rows) error {
					var seq int64
					var orderingKey string
					err := rows.Scan(&seq, &orderingKey)
					changed[seq] = orderingKey
					return err
				})
			if err != nil {
				return 0, err
			}
			for seq, orderingKey := range changed {
				if err := each(t, seq, orderingKey); err != nil {
					return 0, err
				}
			}
			return len(changed), nil
		})
	})
}
