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

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// states are those of jobs, by the state of an event that is in them, and times the columns with
// the time of their positions.
var (
	states = map[engine.State][]string{
		engine.StateWaiting: {"available", "pending", "retryable", "scheduled"},
		engine.StateRunning: {"running"},
		engine.StateDead:    {"cancelled", "discarded"},
	}
	times = map[engine.State]string{engine.StateWaiting: "j.scheduled_at", engine.StateRunning: "j.attempted_at", engine.StateDead: "j.finalized_at"}
)

// reason is the expression for why the last attempt at a job j failed, or why it is a dead letter
// without one.
const reason = `CASE WHEN j.metadata ? 'cancel_attempted_at' THEN 'canceled in River' ELSE coalesce(j.errors[cardinality(j.errors)]->>'error', '') END`

// selection reads columns, and at and id, of the jobs that a filter matches. Each state has a
// query of its own, because each has its range of an index in order. Without a limit, which is 0,
// they come in any order.
func selection(columns string, f engine.Filter, after engine.Position, limit int) (query string, args []any) {
	value := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	conditions := conditions(f, value)
	if !after.IsZero() {
		conditions = append(conditions, "({at}, j.id) > ("+value(after.At)+", "+value(after.Seq)+")")
	}
	order := ""
	if limit > 0 {
		order = " ORDER BY at, id LIMIT " + value(limit)
	}
	var parts []string
	for _, of := range statesOf(f) {
		for _, state := range states[of] {
			// Queue and priority are always the same, and columns of River's index.
			where := strings.Join(append(slices.Clone(conditions), "j.state = '"+state+"' AND j.queue = '{queue}' AND j.priority = 1"), " AND ")
			parts = append(parts, strings.ReplaceAll("(SELECT "+columns+", {at} AS at, j.id FROM {s}.river_job j WHERE "+where+order+")", "{at}", times[of]))
		}
	}
	switch len(parts) {
	case 0:
		return "SELECT " + columns + ", j.scheduled_at AS at, j.id FROM {s}.river_job j WHERE false", nil
	case 1:
		return parts[0], args
	}
	return strings.Join(parts, " UNION ALL ") + order, args
}

// statesOf returns the states of events that a filter matches.
func statesOf(f engine.Filter) []engine.State {
	switch {
	case f.States == nil && f.GivenUpFrom.IsZero() && f.GivenUpBefore.IsZero():
		return []engine.State{engine.StateWaiting, engine.StateRunning, engine.StateDead}
	case f.States == nil:
		return []engine.State{engine.StateDead}
	}
	return f.States
}

// conditions are those of a filter on the row j of a job, apart from its state.
func conditions(f engine.Filter, value func(any) string) (all []string) {
	where := func(condition string, v any) { all = append(all, strings.ReplaceAll(condition, "$", value(v))) }
	if f.Keys != nil {
		texts := make([]string, len(f.Keys))
		for n, key := range f.Keys {
			texts[n] = key.String()
		}
		where("j.args->>'key' = ANY ($)", texts)
	}
	for _, c := range []struct{ condition, text string }{
		{"j.metadata->>'type' = $", string(f.Type)}, {"j.metadata->>'clinic' = $", f.ClinicID}, {reason + " = $", f.Reason},
		{`(strpos(j.args->>'key', $) > 0 OR EXISTS (SELECT FROM jsonb_array_elements(j.metadata->'failures') e WHERE strpos(e->>'request_id', $) > 0))`, f.ID},
	} {
		if c.text != "" {
			where(c.condition, text(c.text))
		}
	}
	for _, c := range []struct {
		condition string
		at        time.Time
	}{
		{"(j.metadata->>'received')::timestamptz >= $", f.ReceivedFrom}, {"(j.metadata->>'received')::timestamptz < $", f.ReceivedBefore},
		{"j.finalized_at >= $", f.GivenUpFrom}, {"j.finalized_at < $", f.GivenUpBefore},
	} {
		if !c.at.IsZero() {
			where(c.condition, c.at)
		}
	}
	if !f.Until.IsZero() {
		all = append(all, "({at}, j.id) <= ("+value(f.Until.At)+", "+value(f.Until.Seq)+")")
	}
	return all
}

// List implements [engine.Engine].
func (i *Inbox) List(ctx context.Context, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	query, args := selection("j.state::text AS state, j.args->>'key' AS key, j.metadata, j.attempt, "+reason+" AS reason", f, after, limit)
	return collect(ctx, i, func(row pgx.CollectableRow) (e engine.Event, err error) {
		var state, key string
		var a about
		if err := row.Scan(&state, &key, &a, &e.Attempts, &e.Reason, &e.Position.At, &e.Position.Seq); err != nil {
			return e, err
		}
		e.Position.At = e.Position.At.UTC()
		e.Type, e.ClinicID, e.CreatedAt, e.ReceivedAt, e.OrderingKey = a.Type, a.Clinic, a.Created, a.Received, a.Subject
		e.Failures = a.Failures[max(0, len(a.Failures)-engine.KeptFailures):]
		for n := range e.Failures {
			e.Failures[n].At = e.Failures[n].At.UTC()
		}
		for of, jobs := range states {
			if slices.Contains(jobs, state) {
				e.State = of
			}
		}
		return e, e.Key.UnmarshalText([]byte(key))
	}, query, args...)
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
	f.Until = engine.Position{At: last[0].At.UTC(), Seq: last[0].Seq}
	query, args = selection("j.metadata->>'type' AS type, coalesce(j.metadata->>'clinic', '') AS clinic, "+reason+
		" AS reason, (j.metadata->>'received')::timestamptz AS received", f, engine.Position{}, 0)
	groups, err := collect(ctx, i, pgx.RowToStructByPos[engine.Group],
		"SELECT type, clinic, reason, count(*), min(received), min(at), max(at) FROM ("+query+") selected GROUP BY 1, 2, 3", args...)
	for _, g := range groups {
		g.Oldest, g.First, g.Last = g.Oldest.UTC(), g.First.UTC(), g.Last.UTC()
		c.Add(g)
	}
	c.Until = f.Until
	return c, err
}

// Open implements [engine.Engine].
func (i *Inbox) Open(ctx context.Context, key webhook.Key) (engine.Event, error) {
	return engine.OpenEvent(ctx, i, i.config.Seal, key, func(e engine.Event) (body, failure []byte, err error) {
		held, err := collect(ctx, i, scanSealed, "SELECT id, args, metadata FROM {s}.river_job WHERE id = $1 AND state <> 'completed'", e.Position.Seq)
		if err == nil && len(held) == 0 {
			err = engine.ErrNotHeld // any more
		}
		if err != nil {
			return nil, nil, err
		}
		return held[0].Body, held[0].Failure, nil
	})
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateDead, engine.Position{}, "SELECT {s}.inbox_replay(ARRAY({selected}))")
}

// Discard implements [engine.Engine].
func (i *Inbox) Discard(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateDead, engine.Position{}, `WITH gone AS (
		DELETE FROM {s}.river_job WHERE id IN ({selected}) AND state IN ('cancelled', 'discarded') RETURNING id) SELECT count(*) FROM gone`)
}

// HandleNow implements [engine.Engine].
func (i *Inbox) HandleNow(ctx context.Context, f engine.Filter) (int, error) {
	if i.life.Stopped() {
		return 0, webhook.ErrInboxClosed
	}
	now, err := one[time.Time](ctx, i, "SELECT clock_timestamp()")
	if err != nil {
		return 0, err
	}
	return i.revise(ctx, f, engine.StateWaiting, engine.Position{At: now}, `WITH due AS (
		UPDATE {s}.river_job SET state = 'available', scheduled_at = clock_timestamp()
		WHERE id IN ({selected}) AND state IN ('available', 'retryable', 'scheduled') AND scheduled_at > clock_timestamp() RETURNING id
	) SELECT count(*) FROM due`)
}

// revise changes events by a statement that returns their number, each batch of them in a
// transaction.
func (i *Inbox) revise(ctx context.Context, f engine.Filter, state engine.State, after engine.Position, statement string) (int, error) {
	return engine.InBatches(ctx, i, f, state, after, func(ctx context.Context, part engine.Filter) (int, error) {
		if i.life.Stopped() {
			return 0, webhook.ErrInboxClosed
		}
		ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
		query, args := selection("1", part, engine.Position{}, 0)
		changed, err := one[int](ctx, i, strings.ReplaceAll(statement, "{selected}", "SELECT id FROM ("+query+") selected"), args...)
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

// sealed is what is sealed of a job.
type sealed struct {
	id int64
	engine.Sealed
}

func scanSealed(row pgx.CollectableRow) (s sealed, err error) {
	var args, metadata []byte
	if err := row.Scan(&s.id, &args, &metadata); err != nil {
		return s, err
	}
	var e event
	var a about
	if errors.Join(json.Unmarshal(args, &e), json.Unmarshal(metadata, &a)) != nil {
		return s, errors.New("the arguments of a job are not those of an event")
	}
	s.Key, s.Body, s.Failure = e.Key, e.Body, a.Failure
	return s, nil
}
