package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
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

var place = []byte("table/column/user-17")

func key(t testing.TB, id string) seal.Key {
	t.Helper()
	k, err := seal.GenerateKey(id)
	require.NoError(t, err)
	return k
}

func ring(t testing.TB, keys ...seal.Key) *seal.KeyRing {
	t.Helper()
	r, err := seal.NewKeyRing(keys...)
	require.NoError(t, err)
	return r
}

func encrypt(t testing.TB, r *seal.KeyRing, text string) []byte {
	t.Helper()
	sealed, err := r.Encrypt([]byte(text), place)
	require.NoError(t, err)
	return sealed
}

func TestRingDecryptsItsCiphertexts(t *testing.T) {
	t.Parallel()
	r := ring(t, key(t, "2026"))
	for _, text := range []string{"", "x", strings.Repeat("long ", 20_000)} {
		for _, associated := range [][]byte{nil, {}, place} {
			sealed, err := r.Encrypt([]byte(text), associated)
			require.NoError(t, err)
			assert.Len(t, sealed, len(text)+30+len("2026"))
			opened, err := r.Decrypt(sealed, associated)
			require.NoError(t, err)
			assert.Equal(t, text, string(opened))
		}
	}
	assert.NotEqual(t, encrypt(t, r, "x"), encrypt(t, r, "x"), "nonces are random")
}

func TestRingDetectsChangedBits(t *testing.T) {
	t.Parallel()
	r := ring(t, key(t, "2026"))
	sealed := encrypt(t, r, "a token")
	for i := range len(sealed) * 8 {
		changed := bytes.Clone(sealed)
		changed[i/8] ^= 1 << (i % 8)
		_, err := r.Decrypt(changed, place)
		require.Error(t, err, "bit %d", i)
	}
	for end := range sealed {
		_, err := r.Decrypt(sealed[:end], place)
		require.Error(t, err, "cut after %d bytes", end)
	}
	_, err := r.Decrypt(append(bytes.Clone(sealed), 0), place)
	require.ErrorIs(t, err, seal.ErrTampered)
	_, err = r.Decrypt(sealed, []byte("table/column/user-18"))
	require.ErrorIs(t, err, seal.ErrTampered)
}

// Moving a byte from the header to the associated data must change the result.
func TestRingBindsItsHeader(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte("0123456789abcdef"), 2)
	long, err := seal.NewKey("ab", secret)
	require.NoError(t, err)
	short, err := seal.NewKey("a", secret)
	require.NoError(t, err)
	sealed, err := ring(t, long).Encrypt([]byte("x"), []byte("c"))
	require.NoError(t, err)
	forged := append([]byte{1, 1, 'a'}, sealed[4:]...)
	_, err = ring(t, short).Decrypt(forged, []byte("bc"))
	require.ErrorIs(t, err, seal.ErrTampered)
}

func TestRingReportsForeignCiphertexts(t *testing.T) {
	t.Parallel()
	r := ring(t, key(t, "2026"))
	for name, foreign := range map[string][]byte{
		"empty": nil, "text": []byte("plain-access-token-that-is-long-enough"), "one byte": {1},
		"other version": append([]byte{2}, encrypt(t, r, "x")[1:]...),
		"no id":         append([]byte{1, 0}, make([]byte, 60)...), "id of control characters": append([]byte{1, 2, 7, 7}, make([]byte, 60)...),
	} {
		_, err := r.Decrypt(foreign, place)
		require.ErrorIs(t, err, seal.ErrNotSealed, name)
		assert.False(t, r.Stale(foreign), name)
	}
	_, err := r.Decrypt(encrypt(t, ring(t, key(t, "2025")), "x"), place)
	require.ErrorIs(t, err, seal.ErrUnknownKey)
	assert.ErrorContains(t, err, "2025")
	_, err = r.Decrypt(encrypt(t, ring(t, key(t, "2026")), "x"), place)
	require.ErrorIs(t, err, seal.ErrTampered, "another key with the same id")
}

func TestRotationTakesThreeDeployments(t *testing.T) {
	t.Parallel()
	before, after := key(t, "2026"), key(t, "2027")
	first := ring(t, before)
	second := ring(t, after.Pending(), before)
	third := ring(t, after, before)
	fourth := ring(t, after)
	old, young := encrypt(t, second, "x"), encrypt(t, third, "x")
	assert.Equal(t, "seal.KeyRing{2027 2026*}", second.String())
	assert.Equal(t, "seal.KeyRing{2027* 2026}", third.String())

	for name, step := range map[string]struct {
		ring       *seal.KeyRing
		opensOld   bool
		opensYoung bool
		oldStale   bool
	}{
		"before":   {ring: first, opensOld: true},
		"prepared": {ring: second, opensOld: true, opensYoung: true},
		"switched": {ring: third, opensOld: true, opensYoung: true, oldStale: true},
		"after":    {ring: fourth, opensYoung: true},
	} {
		_, err := step.ring.Decrypt(old, place)
		assert.Equal(t, step.opensOld, err == nil, name)
		_, err = step.ring.Decrypt(young, place)
		assert.Equal(t, step.opensYoung, err == nil, name)
		assert.Equal(t, step.oldStale, step.ring.Stale(old), name)
		assert.False(t, step.ring.Stale(young), name)
	}
}

func TestNewKeyRingRejectsInvalidKeys(t *testing.T) {
	t.Parallel()
	a := key(t, "a")
	secret := bytes.Repeat([]byte("0123456789abcdef"), 2)
	twin1, _ := seal.NewKey("t1", secret)
	twin2, _ := seal.NewKey("t2", secret)
	for name, keys := range map[string][]seal.Key{
		"none": nil, "only pending": {a.Pending()}, "zero": {{}}, "one of two zero": {a, {}},
		"repeated id": {a, key(t, "a")}, "repeated key": {twin1, twin2},
	} {
		_, err := seal.NewKeyRing(keys...)
		require.ErrorIs(t, err, api.ErrArgument, name)
	}
}

func TestRingPrintsNoKey(t *testing.T) {
	t.Parallel()
	k, err := seal.NewKey("2026", loud)
	require.NoError(t, err)
	r := ring(t, k.Pending(), key(t, "2025"))
	text := k.Text().Reveal()
	_, encoded, _ := strings.Cut(text, ":")
	asJSON, err := json.Marshal(map[string]any{"key": k, "ring": r, "text": k.Text()})
	require.NoError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k, "ring", r)
	type holder struct {
		key  seal.Key
		ring *seal.KeyRing
	}
	printed := string(asJSON) + log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		printed += fmt.Sprintf(verb, k) + fmt.Sprintf(verb, r) + fmt.Sprintf(verb, []any{k, r}) + fmt.Sprintf(verb, holder{k, r})
	}
	assert.NotContains(t, printed, encoded)
	assert.NotContains(t, printed, "MARKED")
	assert.NotContains(t, printed, fmt.Sprintf("%d", []byte(encoded)))
	assert.Contains(t, printed, "2026")
}

func TestInsecurePlaintextCopiesBytes(t *testing.T) {
	t.Parallel()
	var aead seal.AEAD = seal.InsecurePlaintext{}
	body := []byte("Zaphod")
	stored, err := aead.Encrypt(body, []byte("here"))
	require.NoError(t, err)
	assert.Equal(t, "Zaphod", string(stored))
	stored[0] = 'x'
	assert.Equal(t, "Zaphod", string(body), "Encrypt must return a copy")
	opened, err := aead.Decrypt(stored, []byte("there"))
	require.NoError(t, err)
	assert.Equal(t, stored, opened)
}

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
