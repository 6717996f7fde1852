package seal_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
)

// FuzzDecrypt checks foreign bytes: they cause an error and never a panic, and only the
// genuine ciphertext decrypts.
func FuzzDecrypt(f *testing.F) {
	r := ring(f, key(f, "2026"), key(f, "2025"))
	genuine := encrypt(f, r, "a token")
	for _, seed := range [][]byte{nil, {1}, {1, 4}, {1, 255, 'x'}, []byte("1:plain"), genuine, genuine[:20], encrypt(f, ring(f, key(f, "2025")), "x")} {
		f.Add(seed, place)
	}
	f.Fuzz(func(t *testing.T, ciphertext, associatedData []byte) {
		r.Stale(ciphertext)
		plaintext, err := r.Decrypt(ciphertext, associatedData)
		if err == nil {
			require.True(t, bytes.Equal(ciphertext, genuine) && bytes.Equal(associatedData, place))
			require.Equal(t, "a token", string(plaintext))
		}
	})
}

// FuzzParseKeyRing checks any text: the result is a usable ring or an argument error.
func FuzzParseKeyRing(f *testing.F) {
	f.Add(key(f, "2026").Text().Reveal())
	f.Add("+a:,b:\n:")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := seal.ParseKeyRing(api.NewSecret(text))
		if err != nil {
			require.ErrorIs(t, err, api.ErrArgument)
			return
		}
		_, err = r.Decrypt(encrypt(t, r, "x"), place)
		require.NoError(t, err)
	})
}
