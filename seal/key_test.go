package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
)

// loud is a key with a recognizable text at the start of all its encoded forms.
var loud = bytes.Repeat([]byte("\xfb\xefMARKED-"), 4)[:32]

func TestParseKeyAcceptsAllForms(t *testing.T) {
	t.Parallel()
	want, err := seal.NewKey("2026", loud)
	require.NoError(t, err)
	for name, encoded := range map[string]string{
		"base64":              base64.StdEncoding.EncodeToString(loud),
		"base64 without =":    base64.RawStdEncoding.EncodeToString(loud),
		"base64url":           base64.URLEncoding.EncodeToString(loud),
		"base64url without =": base64.RawURLEncoding.EncodeToString(loud),
		"hex":                 hex.EncodeToString(loud),
		"HEX":                 strings.ToUpper(hex.EncodeToString(loud)),
	} {
		got, err := seal.ParseKey(api.NewSecret(" 2026:" + encoded + "\n"))
		require.NoError(t, err, name)
		assert.Equal(t, want.Text().Reveal(), got.Text().Reveal(), name)
		pending, err := seal.ParseKey(api.NewSecret("+2026:" + encoded))
		require.NoError(t, err, name)
		assert.Equal(t, "+"+want.Text().Reveal(), pending.Text().Reveal(), name)
	}
	assert.Empty(t, seal.Key{}.Text())
}

func TestParseKeyRejectsInvalidText(t *testing.T) {
	t.Parallel()
	encoded := base64.StdEncoding.EncodeToString(loud)
	for name, text := range map[string]string{
		"empty": "", "key only": encoded, "no id": ":" + encoded, "invalid id": "2026/1:" + encoded,
		"long id": strings.Repeat("x", 33) + ":" + encoded, "no key": "2026:", "half a key": "2026:" + encoded[:20],
		"long key": "2026:" + encoded[:43] + encoded, "not base64": "2026:" + encoded[:40] + "!!!!",
		"not random": "2026:" + strings.Repeat("A", 43) + "=", "not hexadecimal": "2026:" + hex.EncodeToString(loud)[:63] + "x",
		"key before id": encoded + ":2026",
	} {
		_, err := seal.ParseKey(api.NewSecret(text))
		require.ErrorIs(t, err, api.ErrArgument, name)
		assert.NotContains(t, err.Error(), encoded[:12], name)
		assert.NotContains(t, err.Error(), hex.EncodeToString(loud)[:12], name)
	}
}

func TestParseKeyRingReadsSeveralKeys(t *testing.T) {
	t.Parallel()
	next, now, old := key(t, "2028"), key(t, "2027"), key(t, "2026")
	text := next.Pending().Text().Reveal() + ", " + now.Text().Reveal() + "\n" + old.Text().Reveal()
	r, err := seal.ParseKeyRing(api.NewSecret(text))
	require.NoError(t, err)
	assert.Equal(t, "seal.KeyRing{2028 2027* 2026}", r.String())

	opened, err := r.Decrypt(encrypt(t, ring(t, old), "x"), place)
	require.NoError(t, err)
	assert.Equal(t, "x", string(opened))

	_, err = seal.ParseKeyRing(api.Secret{})
	require.ErrorIs(t, err, api.ErrArgument)
	_, err = seal.ParseKeyRing(api.NewSecret(text + ",2025:abc"))
	require.ErrorIs(t, err, api.ErrArgument)
	assert.ErrorContains(t, err, "key 4 of 4")
}

func TestGenerateKeyRejectsInvalidIDs(t *testing.T) {
	t.Parallel()
	_, err := seal.GenerateKey("a b")
	require.ErrorIs(t, err, api.ErrArgument)
}

// failureTexts collects the texts of failed assertions.
type failureTexts struct{ strings.Builder }

func (f *failureTexts) Errorf(format string, args ...any) { fmt.Fprintf(f, format, args...) }

func TestFailedAssertionHidesKey(t *testing.T) {
	t.Parallel()
	key, err := seal.NewKey("2026", loud)
	require.NoError(t, err)
	var texts failureTexts
	require.False(t, assert.ElementsMatch(&texts, []any{key}, []any{&key}))
	assert.Contains(t, texts.String(), "2026")
	assert.NotContains(t, texts.String(), "MARKED")
}
