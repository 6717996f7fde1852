package riverinbox

import (
	"context"
	"encoding/base64"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// page is how many bodies are read at a time.
const page = 100

// Reseal encrypts, with the current key of [Config].Seal, every stored body and error that an
// older key has encrypted, and returns the number of these events. To retire a key, put the new
// key in front of the ring in all processes, call Reseal, and remove the old key once
// Reseal returns nil. The inbox accepts and handles events meanwhile.
//
// A body that cannot be decrypted stays, and the others are encrypted.
//
// Errors: [webhook.ErrBodyLost] for the first body that cannot be decrypted;
// [engine.ErrNoRotator] if Seal is no [seal.Rotator]. One replica is enough.
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	var read []sealed
	last := int64(0)
	next := func() (all []engine.Sealed, err error) {
		if i.life.Stopped() {
			return nil, webhook.ErrInboxClosed
		}
		read, err = collect(ctx, i, scanSealed,
			"SELECT id, args, metadata FROM {s}.river_job WHERE id > $1 AND state <> 'completed' ORDER BY id LIMIT $2", last, page)
		for _, s := range read {
			last = s.id
			all = append(all, s.Sealed)
		}
		return all, err
	}
	return engine.ResealPages(i.config.Seal, next, func(stale []engine.Sealed) (int, error) {
		byKey := map[string]int64{}
		for _, s := range read {
			byKey[s.Key] = s.id
		}
		changed := 0
		for _, s := range stale { // each in a transaction of its own: a handler may hold one of the rows
			n, err := i.storeResealed(ctx, byKey[s.Key], s)
			if changed += n; err != nil {
				return changed, err
			}
		}
		return changed, nil
	})
}

// storeResealed changes what is still as it was read. What was handled or discarded meanwhile is
// left alone. An event that failed for good meanwhile has an error that was sealed since.
func (i *Inbox) storeResealed(ctx context.Context, id int64, s engine.Sealed) (int, error) {
	text := base64.StdEncoding.EncodeToString // as in JSON
	changed, err := i.exec(ctx, `UPDATE {s}.river_job SET args = jsonb_set(args, '{body}', to_jsonb($3::text)),
			metadata = CASE WHEN metadata->>'failure' = $4 THEN jsonb_set(metadata, '{failure}', to_jsonb($5::text)) ELSE metadata END
		WHERE id = $1 AND args->>'body' = $2 AND state <> 'completed'`,
		id, text(s.Body), text(s.FreshBody), text(s.Failure), text(s.FreshFailure))
	return int(changed), err
}
