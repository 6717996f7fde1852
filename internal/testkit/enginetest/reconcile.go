package enginetest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// reconciling tests engines that are a reconcile.Inbox as reconcile.Clinics uses them.
var reconciling = map[string]func(*harness){
	"Missing":           missing,
	"MissingWholeKeys":  missingWholeKeys,
	"MissingInOrder":    missingInOrder,
	"MissingElsewhere":  missingElsewhere,
	"MissingEnded":      missingEnded,
	"Closed":            reconcilesClosed,
	"Checkpoint":        replicas(checkpoint),
	"CheckpointNames":   replicas(checkpointNames),
	"CheckpointExpires": replicas(checkpointExpires),
	"CheckpointExtends": replicas(checkpointExtends),
	"CheckpointOnce":    replicas(checkpointOnce),
	"CheckpointRestart": checkpointRestart,
	"CheckpointCrash":   checkpointCrash,
}

// reconcilable opens an engine that has to be reconcilable.
func (r *harness) reconcilable(handle webhook.HandlerFunc) (engine.Engine, reconcile.Inbox) {
	r.Helper()
	inbox := r.open(handle)
	reconcilable, ok := inbox.(reconcile.Inbox)
	r.need(ok, "reconcile.Inbox")
	return inbox, reconcilable
}

// missing returns the keys that an inbox has not seen.
func (r *harness) missing(reconcilable reconcile.Inbox, keys ...webhook.Key) []webhook.Key {
	r.Helper()
	missing, err := reconcilable.Missing(r.Context(), keys)
	require.NoError(r, err)
	return missing
}

func keysOf(deliveries []webhook.Delivery) (keys []webhook.Key) {
	for _, d := range deliveries {
		keys = append(keys, d.Key)
	}
	return keys
}

// missing holds that what was accepted is never missing again, whatever became
// of it.
func missing(r *harness) {
	gate := make(chan struct{})
	inbox, reconcilable := r.reconcilable(func(ctx context.Context, e events.Event) error {
		if err := until(ctx, gate); err != nil {
			return err
		}
		if e.ID != "evt_0" {
			return webhook.Permanent(errDown)
		}
		return nil
	})
	all := numbered(3)
	keys := keysOf(all)
	require.Equal(r, keys, r.missing(reconcilable, keys...))
	r.accept(inbox, all[:2]...)
	require.Equal(r, keys[2:], r.missing(reconcilable, keys...), "while they wait or are handled")
	r.accept(inbox, all[2])
	require.Empty(r, r.missing(reconcilable, keys...))
	close(gate)
	r.waitFor(webhook.ResultHandled, all[0])
	r.waitFor(webhook.ResultDead, all[1:]...)
	require.Empty(r, r.missing(reconcilable, keys...), "handled, or a dead letter")
	r.discard(inbox, all[1])
	require.Empty(r, r.missing(reconcilable, keys...), "discarded")
	require.Equal(r, 1, r.accept(inbox, patient("evt_9", "pa_1", 1)), "asking for a key does not make it known")
}

func missingWholeKeys(r *harness) {
	inbox, reconcilable := r.reconcilable(succeed)
	d := patient("evt_1", "pa_1", 1)
	r.accept(inbox, d)
	abroad, upper, longer := d.Key, d.Key, d.Key
	abroad.Environment, upper.EventID, longer.EventID = caSandbox, "EVT_1", "evt_1 "
	others := []webhook.Key{
		abroad, upper, longer, integration(d, "in_2").Key, integration(d, "").Key, integration(d, "IN_1").Key,
		{Environment: usSandbox, EventID: "evt_1/in_1"}, {Environment: usSandbox, EventID: "%"}, {Environment: usSandbox, EventID: "'; --\x00\u00e9"},
	}
	require.Equal(r, others, r.missing(reconcilable, append([]webhook.Key{d.Key}, others...)...))
}

// missingInOrder asks for many keys at a time, some of them twice.
func missingInOrder(r *harness) {
	inbox, reconcilable := r.reconcilable(succeed)
	require.Empty(r, r.missing(reconcilable))
	all := numbered(500)
	slices.Reverse(all)
	var want []webhook.Key
	for i, d := range all {
		if i%50 == 0 {
			r.accept(inbox, d)
			continue
		}
		want = append(want, d.Key)
	}
	asked := keysOf(all)
	asked = append(slices.Insert(asked, 100, asked[:10]...), asked[:10]...)
	assert.Equal(r, want, r.missing(reconcilable, asked...), "in the order of the question, without repeats")
}

func missingElsewhere(r *harness) {
	inbox, _ := r.reconcilable(succeed)
	r.need(r.storage.Shared, "Shared")
	_, other := r.reconcilable(succeed)
	all := numbered(3)
	r.accept(inbox, all[1])
	require.Equal(r, []webhook.Key{all[0].Key, all[2].Key}, r.missing(other, keysOf(all)...))
}

func missingEnded(r *harness) {
	_, reconcilable := r.reconcilable(succeed)
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	_, err := reconcilable.Missing(ctx, keysOf(numbered(1)))
	require.Error(r, err, "nothing is known to be missing")
}

func reconcilesClosed(r *harness) {
	inbox, reconcilable := r.reconcilable(succeed)
	r.close(inbox)
	_, err := reconcilable.Missing(r.Context(), keysOf(numbered(1)))
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
	_, err = reconcilable.ClaimCheckpoint(r.Context(), "name", "first", longClaim)
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
	require.ErrorIs(r, reconcilable.SaveCheckpoint(r.Context(), "name", "first", nil, longClaim), webhook.ErrInboxClosed)
}
