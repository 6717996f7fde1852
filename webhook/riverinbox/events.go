package riverinbox

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/internal/sqldb"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// reason is the SQL for the reason of the last failure of job j.
const reason = `CASE WHEN j.metadata ? 'cancel_attempted_at' THEN 'canceled in River' ELSE coalesce(j.errors[cardinality(j.errors)]->>'error', '') END`

// jobsByKeys and jobsByEventID are the SQL for the jobs of keys and of an event ID.
const (
	jobsByEventID = "ARRAY(SELECT l.job FROM {s}.inbox_ledger l WHERE " + digestOfEventID + ")"
	jobsByKeys    = "ARRAY(SELECT l.job FROM {s}.inbox_ledger l WHERE l.digest = ANY (ARRAY(SELECT {s}.inbox_key_digest(key) FROM unnest({}::text[]) key)))"
)

// table describes the jobs of events.
var table = inboxkit.Table{
	From: "{s}.river_job j", Seq: "j.id", Parameter: "$", Limits: true,
	Ranges: map[engine.State][]string{
		engine.StateWaiting: {jobs("available"), jobs("pending"), jobs("retryable"), jobs("scheduled")}, engine.StateRunning: {jobs("running")},
	},
	At:   map[engine.State]string{engine.StateWaiting: "j.scheduled_at", engine.StateRunning: "j.attempted_at"},
	Type: "j.metadata->>'type'", ClinicID: "j.metadata->>'clinic'", Reason: reason, ReceivedAt: "j.created_at",
	Keys:    "j.id = ANY (" + jobsByKeys + ") AND j.args->>'key' = ANY ({})",
	EventID: "j.id = ANY (" + jobsByEventID + ") AND split_part(j.args->>'key', '/', 3) = {}",
	ID:      "(strpos(j.args->>'key', {}) > 0 OR EXISTS (SELECT FROM jsonb_path_query(j.metadata, '$.failures[*].request_id') r WHERE strpos(r #>> ARRAY[]::text[], {}) > 0))",
	Dead: &inboxkit.Table{
		From: "{s}.inbox_dead d", Seq: "d.job",
		Ranges: map[engine.State][]string{engine.StateDead: {"true"}}, At: map[engine.State]string{engine.StateDead: "d.at"},
		Type: "d.type", ClinicID: "d.clinic", Reason: "d.reason", ReceivedAt: "d.received",
		Keys:    "d.job = ANY (" + jobsByKeys + ") AND d.key = ANY ({})",
		EventID: "d.job = ANY (" + jobsByEventID + ") AND split_part(d.key, '/', 3) = {}",
		ID:      "(strpos(d.key, {}) > 0 OR strpos(d.request_ids, {}) > 0)",
	},
	Value: func(v any) any {
		switch v := v.(type) {
		case string:
			return text(v)
		case []webhook.Key:
			keys := []string{}
			for _, key := range v {
				keys = append(keys, key.String())
			}
			return keys
		case inboxkit.EventID:
			return eventIDInKey(string(v))
		}
		return v
	},
}

// jobs returns the condition on the jobs of a state. Queue and priority are constant. They precede the
// time in River's index.
func jobs(state string) string {
	return "j.state = '" + state + "' AND j.queue = '{queue}' AND j.priority = 1"
}

// List implements [engine.Engine].
func (i *Inbox) List(ctx context.Context, f engine.Filter, page engine.Page) ([]engine.Event, error) {
	query, args := table.Select("{reason} AS reason", f, page)
	// Only the jobs of the result are read. They are slow to read.
	query = `SELECT e.state, coalesce(j.args->>'key', ''), j.created_at, j.metadata, j.attempt, e.reason, e.at, e.seq
		FROM (` + query + `) e JOIN {s}.river_job j ON j.id = e.seq`
	all, err := read(ctx, i.db, func(row pgx.CollectableRow) (e engine.Event, err error) {
		var key string
		var metadata []byte
		var a about
		if err := row.Scan(&e.State, &key, &e.ReceivedAt, &metadata, &e.Attempts, &e.Reason, &e.Position.At, &e.Position.Seq); err != nil {
			return e, err
		}
		_, _ = json.Unmarshal(metadata, &a), e.Key.UnmarshalText([]byte(key)) // zero if a person has inserted the job
		e.Position.At, e.ReceivedAt = e.Position.At.UTC(), e.ReceivedAt.UTC()
		e.Type, e.ClinicID, e.CreatedAt, e.OrderingKey = a.Type, a.Clinic, a.Created, a.OrderingKey
		e.Failures = a.Failures[max(0, len(a.Failures)-inboxkit.KeptFailures):]
		for n := range e.Failures {
			e.Failures[n].At = e.Failures[n].At.UTC()
		}
		return e, nil
	}, query, args...)
	slices.SortFunc(all, func(a, b engine.Event) int { return page.Compare(a.Position, b.Position) })
	return all, err
}

// Count implements [engine.Engine].
func (i *Inbox) Count(ctx context.Context, f engine.Filter, most int) (engine.Counts, error) {
	return table.Count(f, most, func(query string, args []any) ([]inboxkit.Group, error) {
		groups, err := read(ctx, i.db, pgx.RowToStructByPos[inboxkit.Group], query, args...)
		for n := range groups {
			g := &groups[n]
			g.Oldest, g.First, g.Last = g.Oldest.UTC(), g.First.UTC(), g.Last.UTC()
		}
		return groups, err
	})
}

// Open implements [engine.Engine].
func (i *Inbox) Open(ctx context.Context, key webhook.Key) (engine.Event, error) {
	return inboxkit.OpenEvent(ctx, i, i.config.Seal, key, func(e engine.Event) (body, failure []byte, err error) {
		found, err := collect(ctx, i.db, scanSealed, "SELECT id, args, metadata FROM {s}.river_job WHERE id = $1 AND state <> 'completed'", e.Position.Seq)
		if err == nil && len(found) == 0 {
			err = engine.ErrNotStored // handled or discarded since
		}
		if err != nil {
			return nil, nil, err
		}
		return found[0].Body, found[0].Failure, nil
	})
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateDead, time.Time{}, "SELECT {s}.inbox_replay(ARRAY({selected}))")
}

// Discard implements [engine.Engine].
func (i *Inbox) Discard(ctx context.Context, f engine.Filter) (int, error) {
	return i.revise(ctx, f, engine.StateDead, time.Time{}, `WITH gone AS (
		DELETE FROM {s}.river_job WHERE id IN (
			SELECT id FROM {s}.river_job WHERE id IN ({selected}) AND state IN ('cancelled', 'discarded') ORDER BY id FOR UPDATE
		) RETURNING id) SELECT count(*) FROM gone`)
}

// HandleNow implements [engine.Engine].
func (i *Inbox) HandleNow(ctx context.Context, f engine.Filter) (int, error) {
	now, err := read(ctx, i.db, pgx.RowTo[time.Time], "SELECT clock_timestamp()")
	if err != nil {
		return 0, err
	}
	return i.revise(ctx, f, engine.StateWaiting, now[0], `WITH due AS (
		UPDATE {s}.river_job SET state = 'available', scheduled_at = clock_timestamp() WHERE id IN (
			SELECT id FROM {s}.river_job WHERE id IN ({selected}) AND state IN ('available', 'retryable', 'scheduled')
			AND scheduled_at > clock_timestamp() ORDER BY id FOR UPDATE
		) RETURNING id) SELECT count(*) FROM due`)
}

// revise changes batches of events with a statement. The statement returns their number.
func (i *Inbox) revise(ctx context.Context, f engine.Filter, state engine.State, now time.Time, statement string) (int, error) {
	return inboxkit.InBatches(ctx, i, f, state, inboxkit.After(state, now), func(ctx context.Context, part engine.Filter) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
		query, args := table.Select("1", part, engine.Page{})
		statement := strings.ReplaceAll(statement, "{selected}", "SELECT seq FROM ("+query+") selected")
		var changed []int
		err := sqldb.Retry(ctx, func() (err error) { // River locks its jobs in an order of its own
			changed, err = read(ctx, i.db, pgx.RowTo[int], statement, args...)
			return err
		})
		if err != nil {
			return 0, err
		}
		i.bell.ring()
		return changed[0], nil
	})
}

// sealed is a job with its encrypted parts.
type sealed struct {
	id int64
	inboxkit.Sealed
}

func scanSealed(row pgx.CollectableRow) (s sealed, err error) {
	var args, metadata []byte
	if err := row.Scan(&s.id, &args, &metadata); err != nil {
		return s, err
	}
	var e event
	var a about
	if errors.Join(json.Unmarshal(args, &e), json.Unmarshal(metadata, &a)) != nil {
		return s, errors.New("riverinbox: job has no arguments or metadata of an event")
	}
	s.Key, s.Body, s.Failure = e.Key, e.Body, a.Failure
	return s, nil
}

// bodies is the number of bodies in one read.
const bodies = 100

// Reseal encrypts all bodies and errors of older keys with the current key of [Config].Seal,
// and returns the number of these events. To retire a key, put the new key in front of the
// ring in all processes, call Reseal in one process, and remove the old key after Reseal has
// returned nil. Reseal skips a body if it cannot decrypt it.
//
// The error matches [webhook.ErrBodyLost] for the first skipped body. Reseal also fails if
// Seal does not implement [seal.Rotator].
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	var found []sealed
	last := int64(0)
	next := func() (all []inboxkit.Sealed, err error) {
		found, err = read(ctx, i.db, scanSealed,
			"SELECT id, args, metadata FROM {s}.river_job WHERE id > $1 AND state <> 'completed' ORDER BY id LIMIT $2", last, bodies)
		for _, s := range found {
			last = s.id
			all = append(all, s.Sealed)
		}
		return all, err
	}
	return inboxkit.ResealPages(i.config.Seal, next, func(stale []inboxkit.Sealed) (changed int, err error) {
		for _, s := range stale { // one transaction each, because a handler can lock the row
			at := slices.IndexFunc(found, func(f sealed) bool { return f.Key == s.Key })
			n, err := i.storeResealed(ctx, found[at].id, s)
			if changed += n; err != nil {
				return changed, err
			}
		}
		return changed, nil
	})
}

// storeResealed replaces the body and the error unless they have changed.
func (i *Inbox) storeResealed(ctx context.Context, id int64, s inboxkit.Sealed) (int, error) {
	text := base64.StdEncoding.EncodeToString // as encoding/json
	changed, err := i.db.exec(ctx, `UPDATE {s}.river_job SET args = jsonb_set(args, '{body}', to_jsonb($3::text)),
			metadata = CASE WHEN metadata->>'failure' = $4 THEN jsonb_set(metadata, '{failure}', to_jsonb($5::text)) ELSE metadata END
		WHERE id = $1 AND args->>'body' = $2 AND state <> 'completed'`,
		id, text(s.Body), text(s.FreshBody), text(s.Failure), text(s.FreshFailure))
	return int(changed), err
}

const (
	keepEvery = 10 * time.Minute // interval of purge
	page      = 1000             // rows in a transaction of purge
)

// ledger contains a digest of each accepted key.
type ledger struct{ *database }

// purge deletes old digests of events without jobs, and old times of objects, in small
// transactions. If the clock of the database is ahead, the newest event counts, or the clock of
// this process.
func (l *ledger) purge(ctx context.Context) error {
	over, err := one[time.Time](ctx, l.database, `SELECT least(now(), $1::timestamptz, (SELECT max(created_at) FROM {s}.inbox_ledger))`, time.Now())
	over = over.Add(-inboxkit.Retention)
	for _, statement := range []string{
		`DELETE FROM {s}.inbox_ledger WHERE digest IN (SELECT l.digest FROM {s}.inbox_ledger l WHERE l.created_at < $1 AND l.accepted_at < $1
			AND NOT EXISTS (SELECT FROM {s}.river_job j WHERE j.id = l.job) LIMIT $2 FOR UPDATE SKIP LOCKED)`,
		`DELETE FROM {s}.inbox_newest WHERE object IN (SELECT object FROM {s}.inbox_newest WHERE noted_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
	} {
		for deleted := int64(page); err == nil && deleted == page && !l.life.Stopped(); {
			deleted, err = l.exec(ctx, statement, over, page)
		}
	}
	return err
}

// missing returns the keys that were not accepted.
func (l *ledger) missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	digests := make([]pgtype.UUID, len(keys))
	for n, key := range keys {
		digests[n] = keyDigest(key.String())
	}
	found, err := read(ctx, l.database, pgx.RowTo[[16]byte], "SELECT digest FROM {s}.inbox_ledger WHERE digest = ANY ($1)", digests)
	if err != nil {
		return nil, err
	}
	known := make(map[[16]byte]bool, len(found))
	for _, digest := range found {
		known[digest] = true
	}
	return inboxkit.Missing(keys, func(key webhook.Key) bool { return known[keyDigest(key.String()).Bytes] }), nil
}

// finished returns the keys of an event ID without stored events.
func (l *ledger) finished(ctx context.Context, eventID string) ([]engine.Finished, error) {
	return read(ctx, l.database, func(row pgx.CollectableRow) (f engine.Finished, err error) {
		var at *time.Time
		if err := row.Scan(&at); err != nil || at == nil {
			return f, err
		}
		return engine.Finished{Discarded: true, At: at.UTC()}, nil
	}, `SELECT l.discarded_at FROM {s}.inbox_ledger l WHERE `+strings.ReplaceAll(digestOfEventID, "{}", "$1")+` AND NOT EXISTS (
			SELECT FROM {s}.river_job j WHERE j.id = l.job AND j.state <> 'completed' AND split_part(j.args->>'key', '/', 3) = $1)`,
		eventIDInKey(eventID))
}

// digestOfEventID is the condition on the digests of an event ID. A digest begins with 8 bytes
// of the ID.
const digestOfEventID = `l.digest BETWEEN rpad(encode(substr(sha256(convert_to({}::text, 'UTF8')), 1, 8), 'hex'), 32, '0')::uuid
	AND rpad(encode(substr(sha256(convert_to({}::text, 'UTF8')), 1, 8), 'hex'), 32, 'f')::uuid`

// eventIDInKey returns an event ID as in the text of its key.
func eventIDInKey(eventID string) string {
	return strings.Split(webhook.Key{EventID: eventID}.String(), "/")[2]
}
