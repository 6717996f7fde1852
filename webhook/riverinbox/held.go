package riverinbox

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// states are those of jobs, by the state of an event that is in them.
var states = map[engine.State][]string{
	engine.StateWaiting: {"available", "pending", "retryable", "scheduled"},
	engine.StateRunning: {"running"},
	engine.StateDead:    {"cancelled", "discarded"},
}

// position is the expression for the time of a position, of a job in a state.
func position(state string) string {
	switch state {
	case "running":
		return "j.attempted_at"
	case "cancelled", "discarded":
		return "j.finalized_at"
	}
	return "j.scheduled_at"
}

// reason is the expression for why the last attempt at a job j failed, or why it is a dead
// letter without one.
const reason = `CASE WHEN j.metadata ? 'cancel_attempted_at' THEN '` + reasonCanceled + `' ELSE coalesce(j.errors[cardinality(j.errors)]->>'error', '') END`

// reasonCanceled is the reason of an event that a person canceled in River's UI.
const reasonCanceled = "canceled in River"

// query is a statement that grows, and its arguments.
type query struct {
	conditions []string
	args       []any
}

func (q *query) value(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

func (q *query) where(format string, v any) {
	q.conditions = append(q.conditions, strings.ReplaceAll(format, "?", q.value(v)))
}

// conditions are those of a filter and a position on the row j of a job, apart from its state.
func conditions(f engine.Filter, after engine.Position) *query {
	q := &query{}
	if f.Keys != nil {
		texts := make([]string, len(f.Keys))
		for n, key := range f.Keys {
			texts[n] = key.String()
		}
		q.where("j.args->>'key' = ANY (?)", texts)
	}
	for _, equal := range [][2]string{{"j.metadata->>'type'", string(f.Type)}, {"coalesce(j.metadata->>'clinic', '')", f.ClinicID}, {reason, f.Reason}} {
		if equal[1] != "" {
			q.conditions = append(q.conditions, equal[0]+" = "+q.value(text(equal[1])))
		}
	}
	for format, at := range map[string]time.Time{
		"(j.metadata->>'received')::timestamptz >= ?": f.ReceivedFrom, "(j.metadata->>'received')::timestamptz < ?": f.ReceivedBefore,
	} {
		if !at.IsZero() {
			q.where(format, at)
		}
	}
	for format, p := range map[string]engine.Position{"(at, j.id) <= ": f.Until, "(at, j.id) > ": after} {
		if !p.IsZero() {
			q.conditions = append(q.conditions, format+"("+q.value(p.At)+", "+q.value(p.Seq)+")")
		}
	}
	return q
}

// selection reads columns, and at and id, of the jobs that a filter matches. Each state has a
// query of its own, because each has its range of an index in order. Without a limit, which is
// 0, they come in any order.
func selection(columns string, f engine.Filter, after engine.Position, limit int) (string, []any) {
	q := conditions(f, after)
	order := ""
	if limit > 0 {
		order = " ORDER BY at, id LIMIT " + q.value(limit)
	}
	var parts []string
	for _, state := range jobStates(f.States) {
		// Queue and priority are always the same, and columns of River's index.
		where := strings.Join(append(slices.Clone(q.conditions), "j.state = '"+state+"' AND j.queue = '{queue}' AND j.priority = 1"), " AND ")
		parts = append(parts, "(SELECT "+columns+", "+position(state)+" AS at, j.id FROM {s}.river_job j WHERE "+
			strings.ReplaceAll(where, "(at, ", "("+position(state)+", ")+order+")")
	}
	switch len(parts) {
	case 0:
		return "SELECT " + columns + ", j.scheduled_at AS at, j.id FROM {s}.river_job j WHERE false", nil
	case 1:
		return parts[0], q.args
	}
	return strings.Join(parts, " UNION ALL ") + order, q.args
}

// jobStates are the states of jobs that hold events in these states; all that are held if there
// is none.
func jobStates(of []engine.State) (all []string) {
	if of == nil {
		of = []engine.State{engine.StateWaiting, engine.StateRunning, engine.StateDead}
	}
	for _, state := range of {
		all = append(all, states[state]...)
	}
	return all
}

// listed are the columns that scanEvent reads.
const listed = "j.state::text AS state, j.args->>'key' AS key, j.metadata, j.attempt, " + reason + " AS reason"

// scanEvent reads a listed row.
func scanEvent(row pgx.CollectableRow) (e engine.Event, err error) {
	var state, key string
	var metadata []byte
	if err := row.Scan(&state, &key, &metadata, &e.Attempts, &e.Reason, &e.Position.At, &e.Position.Seq); err != nil {
		return e, err
	}
	var a about
	if err := json.Unmarshal(metadata, &a); err != nil {
		return e, errors.New("metadata of a job is not that of an event")
	}
	e.Position.At = e.Position.At.UTC()
	e.Type, e.ClinicID, e.CreatedAt, e.ReceivedAt, e.OrderingKey = a.Type, a.Clinic, a.Created, a.Received, a.Subject
	for of, jobs := range states {
		if slices.Contains(jobs, state) {
			e.State = of
		}
	}
	return e, e.Key.UnmarshalText([]byte(key))
}

// List implements [engine.Engine].
func (i *Inbox) List(ctx context.Context, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	query, args := selection(listed, f, after, limit)
	return collect(ctx, i, scanEvent, query, args...)
}

// Count implements [engine.Engine].
func (i *Inbox) Count(ctx context.Context, f engine.Filter, most int) (c engine.Counts, err error) {
	if i.life.Stopped() {
		return c, webhook.ErrInboxClosed
	}
	query, args := selection("1", f, engine.Position{}, most)
	last, err := collect(ctx, i, pgx.RowToStructByPos[engine.Position],
		"SELECT at, id FROM ("+query+") selected ORDER BY at DESC, id DESC LIMIT 1", args...)
	if err != nil || len(last) == 0 {
		return c, err
	}
	c.Until = engine.Position{At: last[0].At.UTC(), Seq: last[0].Seq}
	f.Until = c.Until
	query, args = selection("j.metadata->>'type' AS type, coalesce(j.metadata->>'clinic', '') AS clinic, "+reason+
		" AS reason, (j.metadata->>'received')::timestamptz AS received", f, engine.Position{}, 0)
	_, err = collect(ctx, i, func(row pgx.CollectableRow) (struct{}, error) {
		var kind, clinic, reason string
		var n int
		var oldest time.Time
		err := row.Scan(&kind, &clinic, &reason, &n, &oldest)
		c.Add(events.Type(kind), clinic, reason, n, oldest.UTC())
		return struct{}{}, err
	}, "SELECT type, clinic, reason, count(*), min(received) FROM ("+query+") selected GROUP BY 1, 2, 3", args...)
	return c, err
}

// Open implements [engine.Engine].
func (i *Inbox) Open(ctx context.Context, key webhook.Key) (engine.Event, error) {
	return engine.OpenEvent(ctx, i, i.config.Seal, key, func(e engine.Event) (body, failure []byte, err error) {
		held, err := collect(ctx, i, scanSealed, "SELECT id, args, metadata FROM {s}.river_job WHERE id = $1 AND state <> 'completed'", e.Position.Seq)
		if err != nil {
			return nil, nil, err
		}
		if len(held) == 0 {
			return nil, nil, engine.ErrNotHeld // any more
		}
		return held[0].Body, held[0].Failure, nil
	})
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, "inbox_replay")
}

// Discard implements [engine.Engine].
func (i *Inbox) Discard(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, "inbox_discard")
}

// revise changes dead letters by a function of the schema, each batch of them in a transaction.
func (i *Inbox) revise(ctx context.Context, f engine.Filter, function string) (int, error) {
	return engine.InBatches(ctx, i, f, func(ctx context.Context, part engine.Filter) (int, error) {
		if i.life.Stopped() {
			return 0, webhook.ErrInboxClosed
		}
		ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
		query, args := selection("1", part, engine.Position{}, 0)
		changed, err := one[int](ctx, i, "SELECT {s}."+function+"(ARRAY(SELECT id FROM ("+query+") selected))", args...)
		i.wake()
		return changed, err
	})
}

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	if i.life.Stopped() {
		return engine.Stats{}, webhook.ErrInboxClosed
	}
	all, err := collect(ctx, i, func(row pgx.CollectableRow) (s engine.Stats, err error) {
		var oldest *time.Time
		if err = row.Scan(&s.Waiting, &s.Running, &s.Dead, &oldest); oldest != nil {
			s.Oldest = oldest.UTC()
		}
		return s, err
	}, `SELECT (SELECT count(*) FROM {s}.river_job WHERE state IN ('available', 'pending', 'retryable', 'scheduled')),
		(SELECT count(*) FROM {s}.river_job WHERE state = 'running'), (SELECT count(*) FROM {s}.river_job WHERE state IN ('cancelled', 'discarded')),
		(SELECT min((metadata->>'received')::timestamptz) FROM {s}.river_job WHERE state IN ('available', 'pending', 'retryable', 'scheduled', 'running'))`)
	if err != nil {
		return engine.Stats{}, err
	}
	all[0].Overdue = i.worker.Overdue()
	return all[0], nil
}
