package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// The first duration outlasts a test, the second does not.
const (
	longClaim  = time.Hour
	shortClaim = 100 * time.Millisecond
)

// checkpoints tests concurrent calls of two replicas, or of one replica if the storage is not
// shared.
var checkpoints = map[string]func(r *harness, one, two reconcile.Inbox){
	"Holders": checkpointHolders,
	"Names":   checkpointNames,
	"Expires": checkpointExpires,
	"Once":    checkpointOnce,
}

// reconciling returns the tests of checkpoints for an engine.
func reconciling() map[string]func(*harness) {
	tests := map[string]func(*harness){}
	for name, test := range checkpoints {
		tests[name] = func(r *harness) {
			engines := r.openSeveral(succeed)
			test(r, engines[0].(reconcile.Inbox), engines[len(engines)-1].(reconcile.Inbox))
		}
	}
	return tests
}

// checkpointHolders passes a checkpoint from one holder to another.
func checkpointHolders(r *harness, one, two reconcile.Inbox) {
	ctx := r.Context()
	state, err := one.ClaimCheckpoint(ctx, "name", "first", longClaim)
	require.NoError(r, err)
	require.Empty(r, state, "no state was saved yet")
	_, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.ErrorIs(r, err, engine.ErrCheckpointHeld)
	require.ErrorIs(r, two.SaveCheckpoint(ctx, "name", "second", []byte("no"), longClaim), engine.ErrCheckpointHeld)
	require.ErrorIs(r, two.SaveCheckpoint(ctx, "unclaimed", "second", []byte("no"), longClaim), engine.ErrCheckpointHeld)
	require.NoError(r, two.ReleaseCheckpoint(ctx, "name", "second"), "the second holder has no claim")
	_, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.ErrorIs(r, err, engine.ErrCheckpointHeld)

	large := bytes.Repeat([]byte("\x00\xff{'\"state"), 64<<10/10)
	require.NoError(r, one.SaveCheckpoint(ctx, "name", "first", []byte("small"), longClaim))
	require.NoError(r, one.SaveCheckpoint(ctx, "name", "first", large, longClaim))
	require.NoError(r, one.SaveCheckpoint(ctx, "name", "first", large, longClaim), "saving the same state again")
	state, err = one.ClaimCheckpoint(ctx, "name", "first", longClaim)
	require.NoError(r, err, "the holder may claim it again")
	require.True(r, bytes.Equal(large, state))

	require.NoError(r, one.ReleaseCheckpoint(ctx, "name", "first"))
	state, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.NoError(r, err)
	require.True(r, bytes.Equal(large, state))
	require.ErrorIs(r, one.SaveCheckpoint(ctx, "name", "first", []byte("late"), longClaim), engine.ErrCheckpointHeld)
	require.NoError(r, one.ReleaseCheckpoint(ctx, "name", "first"), "the first holder's claim has ended")
	_, err = one.ClaimCheckpoint(ctx, "name", "first", longClaim)
	require.ErrorIs(r, err, engine.ErrCheckpointHeld)
	require.NoError(r, two.SaveCheckpoint(ctx, "name", "second", []byte("second"), longClaim))
	state, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.NoError(r, err)
	require.Equal(r, "second", string(state))

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = one.ClaimCheckpoint(ended, "ended", "first", longClaim)
	require.Error(r, err)
	_, err = two.ClaimCheckpoint(ctx, "ended", "second", longClaim)
	require.NoError(r, err, "a canceled claim must not remain")
}

// checkpointNames uses unusual texts as names. An engine must not read them as patterns.
func checkpointNames(r *harness, one, two reconcile.Inbox) {
	names := []string{"us/sandbox", "US/sandbox", "us/sandbox ", "us.sandbox", "*", ">", "%", "_", "a b", "\u00e9", "'; --", "name=1&x:y"}
	for i, name := range names {
		state, err := one.ClaimCheckpoint(r.Context(), name, "holder", longClaim)
		require.NoError(r, err, "%q", name)
		require.Empty(r, state, "%q", name)
		require.NoError(r, one.SaveCheckpoint(r.Context(), name, "holder", fmt.Append(nil, i), longClaim))
	}
	for i, name := range names {
		state, err := two.ClaimCheckpoint(r.Context(), name, "holder", longClaim)
		require.NoError(r, err)
		require.Equal(r, fmt.Sprint(i), string(state), "%q", name)
	}
}

// await claims a checkpoint once the claim of its holder has expired.
func (r *harness) await(checkpoints reconcile.Inbox, name, holder string) (state []byte) {
	r.Helper()
	require.Eventually(r, func() (claimed bool) {
		var err error
		state, err = checkpoints.ClaimCheckpoint(r.Context(), name, holder, longClaim)
		r.madeOrEnded(err)
		return err == nil
	}, r.storage.Patience, shortClaim/10)
	return state
}

// madeOrEnded accepts the error of a short claim, which may expire early on a slow machine.
func (r *harness) madeOrEnded(err error) {
	r.Helper()
	assert.True(r, err == nil || errors.Is(err, engine.ErrCheckpointHeld), "%v", err)
}

// checkpointExpires shortens a claim with SaveCheckpoint until it expires. It extends two
// other claims, with ClaimCheckpoint and with SaveCheckpoint.
func checkpointExpires(r *harness, one, two reconcile.Inbox) {
	ctx := r.Context()
	claim := func(name string, ttl time.Duration) {
		_, err := one.ClaimCheckpoint(ctx, name, "first", ttl)
		r.madeOrEnded(err)
	}
	claim("claimed", shortClaim)
	claim("claimed", longClaim)
	for saved := false; !saved; {
		claim("saved", shortClaim)
		err := one.SaveCheckpoint(ctx, "saved", "first", nil, longClaim)
		r.madeOrEnded(err)
		saved = err == nil
	}
	claim("expires", longClaim)
	r.madeOrEnded(one.SaveCheckpoint(ctx, "expires", "first", []byte("state"), shortClaim))
	assert.Equal(r, "state", string(r.await(two, "expires", "second")))
	require.ErrorIs(r, one.SaveCheckpoint(ctx, "expires", "first", []byte("late"), longClaim), engine.ErrCheckpointHeld)
	state, err := two.ClaimCheckpoint(ctx, "expires", "second", longClaim)
	require.NoError(r, err)
	assert.Equal(r, "state", string(state), "a late save must not store")
	for _, name := range []string{"claimed", "saved"} {
		_, err := two.ClaimCheckpoint(ctx, name, "second", longClaim)
		require.ErrorIs(r, err, engine.ErrCheckpointHeld, name)
	}
}

// checkpointOnce claims a checkpoint for several holders concurrently. One of them must
// succeed.
func checkpointOnce(r *harness, one, two reconcile.Inbox) {
	for round := range 10 {
		var claimed atomic.Int32
		together(8, func(holder int) {
			_, err := []reconcile.Inbox{one, two}[holder%2].ClaimCheckpoint(context.Background(), fmt.Sprint("round ", round), fmt.Sprint("holder ", holder), longClaim)
			if err == nil {
				claimed.Add(1)
			} else {
				assert.ErrorIs(r, err, engine.ErrCheckpointHeld)
			}
		})
		require.EqualValues(r, 1, claimed.Load())
	}
}
