package seal_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// record is as long as a token with its fields.
var record = make([]byte, 600)

// bare is the floor: the cipher alone.
func bare(b *testing.B) cipher.AEAD {
	b.Helper()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	block, err := aes.NewCipher(secret)
	require.NoError(b, err)
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	require.NoError(b, err)
	return gcm
}

func BenchmarkEncrypt(b *testing.B) {
	b.Run("bare cipher", func(b *testing.B) {
		gcm := bare(b)
		b.ReportAllocs()
		for b.Loop() {
			gcm.Seal(nil, nil, record, place)
		}
	})
	b.Run("KeyRing", func(b *testing.B) {
		r := ring(b, key(b, "2026"), key(b, "2025"))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = r.Encrypt(record, place)
		}
	})
}

func BenchmarkDecrypt(b *testing.B) {
	b.Run("bare cipher", func(b *testing.B) {
		gcm := bare(b)
		sealed := gcm.Seal(nil, nil, record, place)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = gcm.Open(nil, nil, sealed, place)
		}
	})
	b.Run("KeyRing", func(b *testing.B) {
		r := ring(b, key(b, "2026"), key(b, "2025"))
		sealed, err := r.Encrypt(record, place)
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = r.Decrypt(sealed, place)
		}
	})
}
