package sqlinbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// table describes the rows of events.
var table = inboxkit.Table{
	From: "dispensary_inbox", Seq: "seq", Parameter: "?",
	Ranges: map[engine.State][]string{
		engine.StateWaiting: {"state = 2", "state = 3"}, engine.StateRunning: {"state = 4"}, engine.StateDead: {"state = 5"},
	},
	At:     map[engine.State]string{engine.StateWaiting: "due_at", engine.StateRunning: "due_at", engine.StateDead: "due_at"},
	Groups: "dispensary_inbox_causes", Type: "type", ClinicID: "clinic_id", Reason: "reason", ReceivedAt: "received_at",
	Keys: "key IN (SELECT value FROM json_each({}))", ByKeys: "+",
	EventID: "key IN (" + keysOfEvent + ")",
	ID:      "(instr(key, {}) > 0 OR instr(request_ids, {}) > 0)",
	Value: func(v any) any {
		switch v := v.(type) {
		case time.Time:
			return v.UnixMicro()
		case []webhook.Key:
			list, _ := json.Marshal(v) // cannot fail
			return string(list)
		case inboxkit.EventID:
			return prefixesOf(string(v))
		}
		return v
	},
}

// keysOfEvent selects the keys of an event ID. It searches a range of keys for each environment.
const keysOfEvent = "SELECT k.key FROM json_each({}) prefix JOIN dispensary_inbox k ON k.key >= prefix.value || '/' AND k.key < prefix.value || '0'"

// prefixesOf returns the parameter of keysOfEvent.
func prefixesOf(eventID string) string {
	var prefixes []string
	for _, e := range []api.Environment{api.USProduction, api.CanadaProduction, api.USSandbox, api.CanadaSandbox} {
		prefixes = append(prefixes, strings.TrimSuffix(webhook.Key{Environment: e, EventID: eventID}.String(), "/"))
	}
	list, _ := json.Marshal(prefixes) // cannot fail
	return string(list)
}

// listed are the columns read by scanEvent.
const listed = "key, type, clinic_id, created_at, received_at, attempts, coalesce(ordering_key, ''), coalesce(reason, ''), failures"

// scanEvent reads a listed row.
func scanEvent(row *sql.Rows) (e engine.Event, err error) {
	var key string
	var at, receivedAt int64
	var createdAt sql.NullInt64
	err = row.Scan(&e.State, &key, &e.Type, &e.ClinicID, &createdAt, &receivedAt, &e.Attempts, &e.OrderingKey, &e.Reason, (*failures)(&e.Failures), &at, &e.Position.Seq)
	if err != nil {
		return e, err
	}
	e.Position.At, e.ReceivedAt = time.UnixMicro(at).UTC(), time.UnixMicro(receivedAt).UTC()
	if createdAt.Valid {
		e.CreatedAt = time.UnixMicro(createdAt.Int64).UTC()
	}
	return e, e.Key.UnmarshalText([]byte(key))
}

// List implements [engine.Engine].
func (i *Inbox) List(ctx context.Context, f engine.Filter, page engine.Page) (all []engine.Event, err error) {
	query, args := table.Select(listed, f, page)
	err = i.each(ctx, query, args, func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		all = append(all, e)
		return err
	})
	return all, err
}

// Count implements [engine.Engine].
func (i *Inbox) Count(ctx context.Context, f engine.Filter, most int) (engine.Counts, error) {
	return table.Count(f, most, func(query string, args []any) (all []inboxkit.Group, err error) {
		err = i.each(ctx, query, args, func(rows *sql.Rows) error {
			var g inboxkit.Group
			var oldest, first, last int64
			err := rows.Scan(&g.Type, &g.ClinicID, &g.Reason, &g.Events, &oldest, &first, &last, &g.Seq)
			g.Oldest, g.First, g.Last = time.UnixMicro(oldest).UTC(), time.UnixMicro(first).UTC(), time.UnixMicro(last).UTC()
			all = append(all, g)
			return err
		})
		return all, err
	})
}

// each reads rows concurrently with the writer.
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

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	if err := i.readable(); err != nil {
		return s, err
	}
	var oldest *int64
	err := i.db.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM dispensary_inbox WHERE state IN (2, 3)),
		(SELECT count(*) FROM dispensary_inbox WHERE state = 4),
		(SELECT coalesce(sum(events), 0) FROM dispensary_inbox_causes),
		(SELECT min(received_at) FROM dispensary_inbox WHERE state IN (2, 3, 4))`,
	).Scan(&s.Waiting, &s.Running, &s.Dead, &oldest)
	if err != nil {
		return engine.Stats{}, fmt.Errorf("sqlinbox: %w", err)
	}
	if i.worker != nil { // a Reader has none
		s.Overdue = i.worker.Overdue()
	}
	if oldest != nil {
		s.Oldest = time.UnixMicro(*oldest).UTC()
	}
	return s, nil
}

// Open implements [engine.Engine].
func (i *Inbox) Open(ctx context.Context, key webhook.Key) (engine.Event, error) {
	return inboxkit.OpenEvent(ctx, i, i.config.Seal, key, func(e engine.Event) (body, failure []byte, err error) {
		err = i.db.QueryRowContext(ctx, "SELECT body, error FROM dispensary_inbox_bodies WHERE seq = ?", e.Position.Seq).Scan(&body, &failure)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			err = engine.ErrNotStored // gone since the list
		case err != nil:
			err = fmt.Errorf("sqlinbox: %w", err)
		}
		return body, failure, err
	})
}

// The plus prevents SQLite from using the index by state.
var finishedQuery = "SELECT reason IS NOT NULL, due_at FROM dispensary_inbox WHERE +state = 6 AND key IN (" + strings.ReplaceAll(keysOfEvent, "{}", "?") + ")"

// Finished implements [engine.Engine].
func (i *Inbox) Finished(ctx context.Context, eventID string) (all []engine.Finished, err error) {
	err = i.each(ctx, finishedQuery, []any{prefixesOf(eventID)}, func(rows *sql.Rows) error {
		var f engine.Finished
		var at int64
		err := rows.Scan(&f.Discarded, &at)
		f.At = time.UnixMicro(at).UTC()
		all = append(all, f)
		return err
	})
	return all, err
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateDead, "SET state = iif(ordering_key IS NULL, 3, 2), due_at = {now}, attempts = 0, reason = NULL", func(t *tx, seq int64, orderingKey string) error {
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
	return i.revise(ctx, f, engine.StateDead, "SET state = 6, due_at = {now}, failures = NULL, request_ids = NULL", func(t *tx, seq int64, _ string) error { return drop(t, seq) })
}

// HandleNow implements [engine.Engine].
func (i *Inbox) HandleNow(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateWaiting, "SET due_at = {now}", func(t *tx, _ int64, _ string) error {
		t.ready = true
		return nil
	})
}

// revise changes dead letters, or waiting events that are not due, with one transaction per
// batch. set is the SQL of the change. It calls each for every changed event.
func (i *Inbox) revise(
	ctx context.Context, f engine.Filter, state engine.State, set string, each func(t *tx, seq int64, orderingKey string) error,
) (int, error) {
	return inboxkit.InBatches(ctx, i, f, state, inboxkit.After(state, i.config.now()), func(ctx context.Context, part engine.Filter) (int, error) {
		return valueOf(ctx, i.writer.do, func(t *tx) (int, error) {
			query, args := table.Select("1", part, engine.Page{After: inboxkit.After(state, i.config.now())})
			var causes []cause // of Replay and Discard
			if state == engine.StateDead {
				var err error
				if causes, err = causesOf(t, query, args); err != nil {
					return 0, err
				}
			}
			args = append(args, i.config.micros())
			set := strings.ReplaceAll(set, "{now}", "?"+strconv.Itoa(len(args)))
			changed := map[int64]string{}
			err := t.each("UPDATE dispensary_inbox "+set+" WHERE seq IN (SELECT seq FROM ("+query+")) RETURNING seq, coalesce(ordering_key, '')",
				args, func(rows *sql.Rows) error {
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
			return len(changed), recount(t, causes)
		})
	})
}

// page is the number of bodies in one read.
const page = 100

// Reseal encrypts every stored body and error that uses an old key with the current key of
// [Config].Seal. It returns the number of these events. To retire a key, rotate the keys as in
// package seal, call Reseal once the new key encrypts, and remove the old key once Reseal returns
// nil. The inbox keeps accepting and handling events during the call.
//
// If a body cannot be decrypted, Reseal leaves it unchanged and continues with the others. The
// error then matches [webhook.ErrBodyLost] for the first such body. Reseal also fails if Seal
// does not implement [seal.Rotator].
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	after := int64(0)
	next := func() ([]inboxkit.Sealed, error) {
		if err := i.readable(); err != nil {
			return nil, err
		}
		return collect(ctx, i.db, func(rows *sql.Rows) (s inboxkit.Sealed, err error) {
			return s, rows.Scan(&after, &s.Key, &s.Body, &s.Failure)
		}, `SELECT seq, key, body, error FROM dispensary_inbox_bodies JOIN dispensary_inbox USING (seq)
			WHERE seq > ? ORDER BY seq LIMIT ?`, after, page)
	}
	return inboxkit.ResealPages(i.config.Seal, next, func(stale []inboxkit.Sealed) (int, error) { return i.storeResealed(ctx, stale) })
}

// storeResealed writes a page in one transaction. It skips events handled or discarded since
// they were read.
func (i *Inbox) storeResealed(ctx context.Context, stale []inboxkit.Sealed) (int, error) {
	if len(stale) == 0 {
		return 0, nil
	}
	return valueOf(ctx, i.writer.do, func(t *tx) (changed int, err error) {
		for _, s := range stale {
			n, err := t.changed(`UPDATE dispensary_inbox_bodies SET body = ?, error = CASE WHEN error IS ? THEN ? ELSE error END
				WHERE seq = (SELECT seq FROM dispensary_inbox WHERE key = ?) AND body = ?`, s.FreshBody, s.Failure, s.FreshFailure, s.Key, s.Body)
			if err != nil {
				return 0, err
			}
			changed += int(n)
		}
		return changed, nil
	})
}
