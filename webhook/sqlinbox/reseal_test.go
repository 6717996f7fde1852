package sqlinbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// openFailing opens an inbox whose events become dead letters at once.
func openFailing(t *testing.T, path string, aead seal.AEAD) *sqlinbox.Inbox {
	t.Helper()
	inbox, err := sqlinbox.Open(path, sqlinbox.Config{Seal: aead, Work: webhook.Work{
		Handle: func(context.Context, events.Event) error { return webhook.Permanent(errors.New("no such patient")) },
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close(context.Background()) })
	return inbox
}

// dead waits until n events are dead letters, and returns them.
func dead(t *testing.T, inbox *sqlinbox.Inbox, n int) (letters []webhook.DeadLetter) {
	t.Helper()
	require.Eventually(t, func() bool {
		stats, err := inbox.Stats(t.Context())
		return err == nil && stats.Dead == n
	}, time.Minute, time.Millisecond)
	for letter, err := range inbox.DeadLetters(t.Context()) {
		require.NoError(t, err)
		letters = append(letters, letter)
	}
	return letters
}

func newKey(t *testing.T, id string) seal.Key {
	t.Helper()
	key, err := seal.GenerateKey(id)
	require.NoError(t, err)
	return key
}

func newRing(t *testing.T, keys ...seal.Key) *seal.KeyRing {
	t.Helper()
	r, err := seal.NewKeyRing(keys...)
	require.NoError(t, err)
	return r
}

func TestResealRetiresAKey(t *testing.T) {
	t.Parallel()
	const n = 250 // several pages
	path := filepath.Join(t.TempDir(), "inbox.db")
	first, second := newKey(t, "first"), newKey(t, "second")

	inbox := openFailing(t, path, newRing(t, first))
	for range n {
		_, err := inbox.Accept(t.Context(), benchDelivery())
		require.NoError(t, err)
	}
	before := dead(t, inbox, n)
	again, err := inbox.Reseal(t.Context())
	require.NoError(t, err)
	assert.Zero(t, again, "nothing was sealed with an old key")
	require.NoError(t, inbox.Close(t.Context()))

	inbox = openFailing(t, path, newRing(t, second, first))
	again, err = inbox.Reseal(t.Context())
	require.NoError(t, err)
	assert.Equal(t, n, again)
	again, err = inbox.Reseal(t.Context())
	require.NoError(t, err)
	assert.Zero(t, again, "nothing is left to do")
	require.NoError(t, inbox.Close(t.Context()))

	inbox = openFailing(t, path, newRing(t, second))
	assert.Equal(t, before, dead(t, inbox, n), "the old key is not needed any more, for bodies and errors alike")
}

func TestResealGoesOnWhereABodyIsLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "inbox.db")
	lost, first, second := newKey(t, "lost"), newKey(t, "first"), newKey(t, "second")
	for _, keys := range [][]seal.Key{{lost}, {first, lost}} {
		inbox := openFailing(t, path, newRing(t, keys...))
		_, err := inbox.Accept(t.Context(), benchDelivery())
		require.NoError(t, err)
		require.NoError(t, inbox.Close(t.Context()))
	}
	inbox := openFailing(t, path, newRing(t, second, first))
	again, err := inbox.Reseal(t.Context())
	require.ErrorIs(t, err, webhook.ErrBodyLost)
	assert.Equal(t, 1, again)
}

func TestResealNeedsARotator(t *testing.T) {
	t.Parallel()
	inbox := openFailing(t, filepath.Join(t.TempDir(), "inbox.db"), webhook.InsecurePlaintext{})
	_, err := inbox.Reseal(t.Context())
	require.ErrorContains(t, err, "Config.Seal")
}
