package riverinbox

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

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
