package seal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/seal"
)

func TestInsecurePlaintext(t *testing.T) {
	t.Parallel()
	var aead seal.AEAD = seal.InsecurePlaintext{}
	body := []byte("Zaphod")
	stored, err := aead.Encrypt(body, []byte("here"))
	require.NoError(t, err)
	assert.Equal(t, "Zaphod", string(stored))
	stored[0] = 'x'
	assert.Equal(t, "Zaphod", string(body), "it is a copy")
	opened, err := aead.Decrypt(stored, []byte("there"))
	require.NoError(t, err)
	assert.Equal(t, stored, opened)
}
