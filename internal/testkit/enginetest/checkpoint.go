package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Times of claims: one that does not end during a test, and one that does.
const (
	longClaim  = time.Hour
	shortClaim = 100 * time.Millisecond
)

// Checkpoints holds the checkpoints of an inbox that is no engine to the contract of
// [reconcile.Checkpoints]: those of two replicas, or of one twice. The suite holds engines
// to it.
func Checkpoints(t *testing.T, one, two reconcile.Checkpoints) {
	t.Helper()
	r := newHarness(t, Storage{})
	for _, test := range []func(*harness, reconcile.Checkpoints, reconcile.Checkpoints){
		checkpoint, checkpointNames, checkpointExpires, checkpointExtends, checkpointOnce,
	} {
		test(r, one, two)
	}
}

// replicas runs a test of checkpoints through two engines where the storage may be
// shared, else through one.
func replicas(test func(r *harness, one, two reconcile.Checkpoints)) func(*harness) {
	return func(r *harness) {
		_, one := r.reconcilable(succeed)
		two := one
		if r.storage.Shared {
			_, two = r.reconcilable(succeed)
		}
		test(r, one, two)
	}
}

// checkpoint follows one through two holders.
func checkpoint(r *harness, one, two reconcile.Checkpoints) {
	ctx := r.Context()
	state, err := one.ClaimCheckpoint(ctx, "name", "first", longClaim)
	require.NoError(r, err)
	require.Empty(r, state, "nothing was saved yet")
	_, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.ErrorIs(r, err, reconcile.ErrCheckpointHeld)
	require.ErrorIs(r, two.SaveCheckpoint(ctx, "name", "second", []byte("no"), longClaim), reconcile.ErrCheckpointHeld)
	require.ErrorIs(r, two.SaveCheckpoint(ctx, "unclaimed", "second", []byte("no"), longClaim), reconcile.ErrCheckpointHeld)
	require.NoError(r, two.ReleaseCheckpoint(ctx, "name", "second"), "it has no claim")
	_, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.ErrorIs(r, err, reconcile.ErrCheckpointHeld)

	large := bytes.Repeat([]byte("\x00\xff{'\"state"), 64<<10/10)
	require.NoError(r, one.SaveCheckpoint(ctx, "name", "first", []byte("small"), longClaim))
	require.NoError(r, one.SaveCheckpoint(ctx, "name", "first", large, longClaim))
	require.NoError(r, one.SaveCheckpoint(ctx, "name", "first", large, longClaim), "also the same again")
	state, err = one.ClaimCheckpoint(ctx, "name", "first", longClaim)
	require.NoError(r, err, "its holder may claim it again")
	require.True(r, bytes.Equal(large, state))

	require.NoError(r, one.ReleaseCheckpoint(ctx, "name", "first"))
	state, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.NoError(r, err)
	require.True(r, bytes.Equal(large, state))
	require.ErrorIs(r, one.SaveCheckpoint(ctx, "name", "first", []byte("late"), longClaim), reconcile.ErrCheckpointHeld)
	require.NoError(r, one.ReleaseCheckpoint(ctx, "name", "first"), "its claim is over")
	_, err = one.ClaimCheckpoint(ctx, "name", "first", longClaim)
	require.ErrorIs(r, err, reconcile.ErrCheckpointHeld)
	require.NoError(r, two.SaveCheckpoint(ctx, "name", "second", []byte("second"), longClaim))
	state, err = two.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.NoError(r, err)
	require.Equal(r, "second", string(state))

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = one.ClaimCheckpoint(ended, "ended", "first", longClaim)
	require.Error(r, err)
	_, err = two.ClaimCheckpoint(ctx, "ended", "second", longClaim)
	require.NoError(r, err, "a claim that was broken off does not stay")
}

// checkpointNames holds that a name may be any text, and is no pattern.
func checkpointNames(r *harness, one, two reconcile.Checkpoints) {
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

// await claims a checkpoint as soon as its holder's claim has ended.
func (r *harness) await(checkpoints reconcile.Checkpoints, name, holder string) []byte {
	r.Helper()
	for deadline := time.Now().Add(r.storage.Patience); ; {
		state, err := checkpoints.ClaimCheckpoint(r.Context(), name, holder, longClaim)
		if err == nil {
			return state
		}
		require.ErrorIs(r, err, reconcile.ErrCheckpointHeld)
		require.True(r, time.Now().Before(deadline), "a claim does not end")
		<-time.After(shortClaim / 10)
	}
}

// madeOrEnded takes the error of a short claim: on a slow machine it has ended before it is
// told.
func (r *harness) madeOrEnded(err error) {
	r.Helper()
	require.True(r, err == nil || errors.Is(err, reconcile.ErrCheckpointHeld), "%v", err)
}

func checkpointExpires(r *harness, one, two reconcile.Checkpoints) {
	ctx := r.Context()
	_, err := one.ClaimCheckpoint(ctx, "expires", "first", longClaim)
	require.NoError(r, err)
	r.madeOrEnded(one.SaveCheckpoint(ctx, "expires", "first", []byte("state"), shortClaim)) // a claim may get shorter
	assert.Equal(r, "state", string(r.await(two, "expires", "second")))
	require.ErrorIs(r, one.SaveCheckpoint(ctx, "expires", "first", []byte("late"), longClaim), reconcile.ErrCheckpointHeld)
	_, err = one.ClaimCheckpoint(ctx, "expires", "first", longClaim)
	require.ErrorIs(r, err, reconcile.ErrCheckpointHeld)
	state, err := two.ClaimCheckpoint(ctx, "expires", "second", longClaim)
	require.NoError(r, err)
	assert.Equal(r, "state", string(state), "what came late was not saved")
}

// checkpointExtends extends two short claims, and lets one end that is not
// extended.
func checkpointExtends(r *harness, one, two reconcile.Checkpoints) {
	ctx := r.Context()
	short := func(name string) {
		_, err := one.ClaimCheckpoint(ctx, name, "first", shortClaim)
		r.madeOrEnded(err)
	}
	short("claimed")
	_, err := one.ClaimCheckpoint(ctx, "claimed", "first", longClaim)
	require.NoError(r, err)
	for saved := false; !saved; {
		short("saved")
		err := one.SaveCheckpoint(ctx, "saved", "first", nil, longClaim)
		r.madeOrEnded(err)
		saved = err == nil
	}
	short("clock")
	r.await(two, "clock", "second")
	for _, name := range []string{"claimed", "saved"} {
		_, err := two.ClaimCheckpoint(ctx, name, "second", longClaim)
		require.ErrorIs(r, err, reconcile.ErrCheckpointHeld, name)
	}
}

// checkpointOnce lets many claim at once.
func checkpointOnce(r *harness, one, two reconcile.Checkpoints) {
	for round := range 10 {
		var claimed atomic.Int32
		var group sync.WaitGroup
		together := make(chan struct{})
		for holder := range 8 {
			group.Go(func() {
				<-together
				_, err := []reconcile.Checkpoints{one, two}[holder%2].ClaimCheckpoint(context.Background(), fmt.Sprint("round ", round), fmt.Sprint("holder ", holder), longClaim)
				if err == nil {
					claimed.Add(1)
				} else {
					assert.True(r, errors.Is(err, reconcile.ErrCheckpointHeld), "%v", err)
				}
			})
		}
		close(together)
		group.Wait()
		require.EqualValues(r, 1, claimed.Load())
	}
}

func checkpointRestart(r *harness) {
	inbox, reconcilable := r.reconcilable(succeed)
	r.need(r.storage.Durable, "Durable")
	ctx := r.Context()
	d := patient("evt_1", "pa_1", 1)
	r.accept(inbox, d)
	_, err := reconcilable.ClaimCheckpoint(ctx, "name", "first", longClaim)
	require.NoError(r, err)
	require.NoError(r, reconcilable.SaveCheckpoint(ctx, "name", "first", []byte("state"), longClaim))
	require.NoError(r, reconcilable.ReleaseCheckpoint(ctx, "name", "first"))
	r.close(inbox)
	_, reconcilable = r.reconcilable(succeed)
	state, err := reconcilable.ClaimCheckpoint(ctx, "name", "second", longClaim)
	require.NoError(r, err)
	assert.Equal(r, "state", string(state))
	assert.Empty(r, r.missing(reconcilable, d.Key))
}

func checkpointCrash(r *harness) {
	inbox, reconcilable := r.reconcilable(succeed)
	r.need(r.storage.Durable && r.storage.Crash != nil, "Durable and Crash")
	_, err := reconcilable.ClaimCheckpoint(r.Context(), "name", "first", longClaim)
	require.NoError(r, err)
	r.madeOrEnded(reconcilable.SaveCheckpoint(r.Context(), "name", "first", []byte("state"), shortClaim))
	r.crash(inbox)
	_, reconcilable = r.reconcilable(succeed)
	assert.Equal(r, "state", string(r.await(reconcilable, "name", "second")))
}
