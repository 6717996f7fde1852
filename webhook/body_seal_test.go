package webhook_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

func TestSealedBodiesOpenWithTheirKeyOnly(t *testing.T) {
	t.Parallel()
	key, err := seal.GenerateKey("test")
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	sealed, err := webhook.SealBody(ring, orderKey, []byte(marked))
	require.NoError(t, err)
	assert.NotContains(t, string(sealed), marked)
	body, err := webhook.OpenBody(ring, orderKey, sealed)
	require.NoError(t, err)
	assert.Equal(t, marked, string(body))

	other := orderKey
	other.IntegrationID = "in_2"
	_, err = webhook.OpenBody(ring, other, sealed)
	require.ErrorIs(t, err, webhook.ErrBodyLost)
	require.ErrorIs(t, err, seal.ErrTampered)
	_, err = webhook.OpenBody(ring, orderKey, []byte(marked))
	require.ErrorIs(t, err, seal.ErrNotSealed)
	assert.NotContains(t, err.Error(), marked)

	text, err := webhook.SealError(ring, orderKey, errDown)
	require.NoError(t, err)
	require.EqualError(t, webhook.OpenError(ring, orderKey, text), errDown.Error())
	require.ErrorIs(t, webhook.OpenError(ring, orderKey, sealed), seal.ErrTampered, "a body is no error")
	_, err = webhook.OpenBody(ring, orderKey, text)
	require.ErrorIs(t, err, seal.ErrTampered, "an error is no body")
}

func TestInsecurePlaintext(t *testing.T) {
	t.Parallel()
	var aead seal.AEAD = webhook.InsecurePlaintext{}
	body := []byte(marked)
	stored, err := webhook.SealBody(aead, orderKey, body)
	require.NoError(t, err)
	assert.Equal(t, marked, string(stored))
	stored[0] = 'x'
	assert.Equal(t, marked, string(body), "it is a copy")
	opened, err := webhook.OpenBody(aead, orderKey, stored)
	require.NoError(t, err)
	assert.Equal(t, stored, opened)
}
