package inboxkit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

func TestBodyDecryptsOnlyForItsEvent(t *testing.T) {
	t.Parallel()
	key, err := seal.GenerateKey("test")
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	sealed, err := inboxkit.SealBody(ring, orderKey, []byte(marked))
	require.NoError(t, err)
	assert.NotContains(t, string(sealed), marked)
	body, err := inboxkit.OpenBody(ring, orderKey, sealed)
	require.NoError(t, err)
	assert.Equal(t, marked, string(body))

	other := orderKey
	other.IntegrationID = "in_2"
	_, err = inboxkit.OpenBody(ring, other, sealed)
	require.ErrorIs(t, err, webhook.ErrBodyLost)
	require.ErrorIs(t, err, seal.ErrTampered)
	_, err = inboxkit.OpenBody(ring, orderKey, []byte(marked))
	require.ErrorIs(t, err, seal.ErrNotSealed)
	assert.NotContains(t, err.Error(), marked)

	text := inboxkit.SealError(ring, orderKey, errDown)
	require.EqualError(t, inboxkit.OpenError(ring, orderKey, text), errDown.Error())
	require.ErrorIs(t, inboxkit.OpenError(ring, orderKey, sealed), seal.ErrTampered, "a body is not an error")
	_, err = inboxkit.OpenBody(ring, orderKey, text)
	require.ErrorIs(t, err, seal.ErrTampered, "an error is not a body")
}

func TestResealUsesCurrentKey(t *testing.T) {
	t.Parallel()
	old, err := seal.GenerateKey("old")
	require.NoError(t, err)
	today, err := seal.GenerateKey("today")
	require.NoError(t, err)
	ring := func(keys ...seal.Key) *seal.KeyRing {
		r, err := seal.NewKeyRing(keys...)
		require.NoError(t, err)
		return r
	}
	body, err := inboxkit.SealBody(ring(old), orderKey, []byte(marked))
	require.NoError(t, err)
	text := inboxkit.SealError(ring(old), orderKey, errDown)

	_, _, err = reseal(seal.InsecurePlaintext{}, body, text)
	require.ErrorIs(t, err, inboxkit.ErrNoRotator)
	_, _, err = reseal(ring(today), body, text)
	require.ErrorIs(t, err, webhook.ErrBodyLost)
	require.ErrorIs(t, err, seal.ErrUnknownKey)
	_, _, err = reseal(ring(today, old), body, body)
	require.ErrorIs(t, err, seal.ErrTampered, "a body is not an error")
	freshBody, freshText, err := reseal(ring(today, old), body, text)
	require.NoError(t, err)
	opened, err := inboxkit.OpenBody(ring(today), orderKey, freshBody)
	require.NoError(t, err)
	assert.Equal(t, marked, string(opened))
	require.EqualError(t, inboxkit.OpenError(ring(today), orderKey, freshText), errDown.Error())

	freshBody, freshText, err = reseal(ring(today, old), body, nil)
	require.NoError(t, err)
	assert.NotNil(t, freshBody)
	assert.Nil(t, freshText)

	newer := inboxkit.SealError(ring(today), orderKey, errDown)
	again, _, err := reseal(ring(today, old), freshBody, newer)
	require.NoError(t, err)
	assert.Nil(t, again, "neither is stale")
	again, _, err = reseal(ring(today, old), freshBody, text)
	require.NoError(t, err)
	assert.NotNil(t, again, "the error is stale")
}

func TestResealSkipsLostBody(t *testing.T) {
	t.Parallel()
	old, err := seal.GenerateKey("old")
	require.NoError(t, err)
	today, err := seal.GenerateKey("today")
	require.NoError(t, err)
	before, err := seal.NewKeyRing(old)
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(today, old)
	require.NoError(t, err)
	body, err := inboxkit.SealBody(before, orderKey, []byte(marked))
	require.NoError(t, err)
	pages := [][]inboxkit.Sealed{{{Key: orderKey.String(), Body: []byte(marked)}, {Key: orderKey.String(), Body: body}}, nil}
	n, err := inboxkit.ResealPages(ring, func() (page []inboxkit.Sealed, _ error) {
		page, pages = pages[0], pages[1:]
		return page, nil
	}, func(stale []inboxkit.Sealed) (int, error) { return len(stale), nil })
	require.ErrorIs(t, err, webhook.ErrBodyLost)
	assert.Contains(t, err.Error(), orderKey.EventID)
	assert.NotContains(t, err.Error(), marked)
	assert.Equal(t, 1, n, "the next event is encrypted")
}

// reseal passes one event through ResealPages. It returns nil if neither text is stale.
func reseal(aead seal.AEAD, body, failure []byte) (freshBody, freshFailure []byte, err error) {
	pages := [][]inboxkit.Sealed{{{Key: orderKey.String(), Body: body, Failure: failure}}, nil}
	_, err = inboxkit.ResealPages(aead, func() (page []inboxkit.Sealed, _ error) {
		page, pages = pages[0], pages[1:]
		return page, nil
	}, func(stale []inboxkit.Sealed) (int, error) {
		for _, s := range stale {
			freshBody, freshFailure = s.FreshBody, s.FreshFailure
		}
		return len(stale), nil
	})
	return freshBody, freshFailure, err
}
