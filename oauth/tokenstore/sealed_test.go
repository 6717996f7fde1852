package tokenstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

var otherKey = tokenstore.Key{Environment: oauthtest.USSandbox, User: "user-18"}

func sealKey(t testing.TB, id string) seal.Key {
	t.Helper()
	key, err := seal.GenerateKey(id)
	require.NoError(t, err)
	return key
}

func keyRing(t testing.TB, keys ...seal.Key) *seal.KeyRing {
	t.Helper()
	ring, err := seal.NewKeyRing(keys...)
	require.NoError(t, err)
	return ring
}

// sealed returns a store that encrypts with a ring of keys.
func sealed(t testing.TB, inner tokenstore.Store, keys ...seal.Key) tokenstore.Store {
	t.Helper()
	return sealedBy(t, inner, keyRing(t, keys...))
}

func sealedBy(t testing.TB, inner tokenstore.Store, aead seal.AEAD) tokenstore.Store {
	t.Helper()
	store, err := tokenstore.Sealed(inner, aead)
	require.NoError(t, err)
	return store
}

// vault is a sealed store with its inner store, its key and one record.
type vault struct {
	inner  *tokenstore.MemoryStore
	store  tokenstore.Store
	key    seal.Key
	record tokenstore.Record
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{inner: tokenstore.NewMemoryStore(), key: sealKey(t, "2026")}
	v.store = sealed(t, v.inner, v.key)
	var err error
	v.record, err = v.store.Save(t.Context(), storeKey, oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	return v
}

// stored returns the record of the inner store.
func (v *vault) stored(t *testing.T, key tokenstore.Key) tokenstore.Record {
	t.Helper()
	record, err := v.inner.Load(t.Context(), key)
	require.NoError(t, err)
	return record
}

// plant changes the stored token without the sealed store.
func (v *vault) plant(t *testing.T, key tokenstore.Key, change func(*oauth.Token)) {
	t.Helper()
	token := v.stored(t, key).Token
	change(&token)
	_, err := v.inner.Save(t.Context(), key, token)
	require.NoError(t, err)
}

func TestSealedStoreWritesCiphertexts(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	inner := v.stored(t, storeKey).Token
	assert.NotContains(t, inner.AccessToken.Reveal()+inner.RefreshToken.Reveal(), "access-0")
	assert.Equal(t, v.record.Token.ExpiresAt, inner.ExpiresAt, "the inner store computes due times from it")
	assert.Equal(t, v.record.Token.ResourceOwner, inner.ResourceOwner, "lists contain it")

	loaded, err := v.store.Load(t.Context(), storeKey)
	require.NoError(t, err)
	assert.Equal(t, "access-0", loaded.Token.AccessToken.Reveal())
	assert.Equal(t, "refresh-0", loaded.Token.RefreshToken.Reveal())
	assert.Equal(t, v.record.Version, loaded.Version)

	token := v.record.Token
	token.Replaced = []oauth.ReplacedGrant{{AccessToken: api.NewSecret("access-before"), RefreshToken: api.NewSecret("refresh-before")}}
	saved, err := v.store.SaveVersion(t.Context(), storeKey, v.record.Version, token)
	require.NoError(t, err)
	assert.Equal(t, token, saved.Token)
	assert.Empty(t, v.stored(t, storeKey).Token.Replaced, "the ciphertext contains the replaced grants")
	loaded, err = v.store.Load(t.Context(), storeKey)
	require.NoError(t, err)
	assert.Equal(t, token.Replaced, loaded.Token.Replaced)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.Equal(t, "tokenstore.Sealed store", fmt.Sprintf(verb, v.store))
	}
}

func TestSealedStoreTrustsOnlyCiphertext(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.plant(t, storeKey, func(token *oauth.Token) {
		token.ResourceOwner.ID, token.Scope, token.ExpiresAt = "someone-else", "everything", time.Time{}
	})
	loaded, err := v.store.Load(t.Context(), storeKey)
	require.NoError(t, err)
	assert.Equal(t, v.record.Token.ResourceOwner, loaded.Token.ResourceOwner)
	assert.Equal(t, v.record.Token.Scope, loaded.Token.Scope)
	assert.WithinDuration(t, v.record.Token.ExpiresAt, loaded.Token.ExpiresAt, time.Microsecond)
}

func TestSealedStoreRejectsMovedCiphertexts(t *testing.T) {
	type test struct {
		change func(row *oauth.Token, other oauth.Token)
		want   error
	}
	oauthtest.Each(t, map[string]test{
		"another user's row":     {func(row *oauth.Token, other oauth.Token) { *row = other }, seal.ErrTampered},
		"another user's refresh": {func(row *oauth.Token, other oauth.Token) { row.RefreshToken = other.RefreshToken }, seal.ErrTampered},
		"another user's access":  {func(row *oauth.Token, other oauth.Token) { row.AccessToken = other.AccessToken }, seal.ErrTampered},
		"access as refresh":      {func(row *oauth.Token, _ oauth.Token) { row.RefreshToken = row.AccessToken }, seal.ErrTampered},
		"refresh token removed":  {func(row *oauth.Token, _ oauth.Token) { row.RefreshToken = api.Secret{} }, seal.ErrNotSealed},
		"one letter more":        {func(row *oauth.Token, _ oauth.Token) { row.AccessToken = api.NewSecret(row.AccessToken.Reveal() + "A") }, seal.ErrTampered},
		"not base64":             {func(row *oauth.Token, _ oauth.Token) { row.AccessToken = api.NewSecret(row.AccessToken.Reveal() + "!") }, seal.ErrTampered},
		"plaintext token":        {func(row *oauth.Token, _ oauth.Token) { row.AccessToken = api.NewSecret("attacker") }, seal.ErrNotSealed},
	}, func(t *testing.T, c test) {
		v := newVault(t)
		_, err := v.store.Save(t.Context(), otherKey, oauthtest.FirstToken(time.Hour))
		require.NoError(t, err)
		v.plant(t, storeKey, func(token *oauth.Token) { c.change(token, v.stored(t, otherKey).Token) })
		v.requireUnreadable(t, c.want)
	})
}

func TestSealedStoreRejectsOtherEnvironment(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	canadian := v.stored(t, storeKey).Token
	canadian.Environment = oauthtest.CASandbox
	key := tokenstore.Key{Environment: oauthtest.CASandbox, User: oauthtest.User}
	_, err := v.inner.Save(t.Context(), key, canadian)
	require.NoError(t, err)
	_, err = v.store.Load(t.Context(), key)
	require.ErrorIs(t, err, seal.ErrTampered)
}

// requireUnreadable requires every read of the record to return the typed error. It must still
// be possible to replace and delete the record.
func (v *vault) requireUnreadable(t *testing.T, want error) {
	t.Helper()
	ctx := t.Context()
	_, err := v.store.Load(ctx, storeKey)
	require.ErrorIs(t, err, tokenstore.ErrUnreadable)
	require.ErrorIs(t, err, want)

	stored := v.stored(t, storeKey)
	lease := tokenstore.Lease{Key: storeKey, Version: stored.Version, Owner: "a"}
	_, err = v.store.Lease(ctx, lease, time.Minute)
	require.ErrorIs(t, err, tokenstore.ErrUnreadable)
	lease.Owner = "b"
	_, err = v.inner.Lease(ctx, lease, time.Minute)
	require.NoError(t, err, "a lease that cannot be used is released")
	_, err = v.store.Fail(ctx, lease, oauthtest.FirstToken(time.Hour), tokenstore.ReasonInvalidGrant)
	require.NoError(t, err, "a write replaces the record")

	_, err = v.store.Save(ctx, storeKey, oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	record, err := v.store.Load(ctx, storeKey)
	require.NoError(t, err)
	require.NoError(t, v.store.DeleteVersion(ctx, storeKey, record.Version))
	_, err = v.store.Load(ctx, storeKey)
	require.ErrorIs(t, err, tokenstore.ErrNoRecord)
}

func TestSealedStoreReportsMissingKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	without := sealed(t, v.inner, sealKey(t, "2027"))
	_, err := without.Load(t.Context(), storeKey)
	require.ErrorIs(t, err, tokenstore.ErrUnreadable)
	require.ErrorIs(t, err, seal.ErrUnknownKey)
	_, err = v.store.Load(t.Context(), storeKey)
	require.NoError(t, err, "the old key decrypts the record again")
}

// A refresh encrypts a record with the current key. So does a write of each listed record.
func TestWritesUseCurrentKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	next := sealKey(t, "2027")
	before, err := v.store.Load(t.Context(), storeKey)
	require.NoError(t, err)
	rotated := sealed(t, v.inner, next, v.key)
	records, err := rotated.List(t.Context(), tokenstore.Listing{Environment: storeKey.Environment, Limit: 100})
	require.NoError(t, err)
	require.NotEmpty(t, records)
	for _, listed := range records {
		record, err := rotated.Load(t.Context(), listed.Key)
		require.NoError(t, err)
		_, err = rotated.SaveVersion(t.Context(), record.Key, record.Version, record.Token)
		require.NoError(t, err)
	}
	only := sealed(t, v.inner, next)
	record, err := only.Load(t.Context(), storeKey)
	require.NoError(t, err, "the old key is no longer needed")
	require.Equal(t, before.Token, record.Token)

	_, err = rotated.Commit(t.Context(), take(t, rotated, record, "a"), oauthtest.FirstToken(2*time.Hour))
	require.NoError(t, err)
	_, err = only.Load(t.Context(), storeKey)
	require.NoError(t, err)
}

// foreign is an AEAD without the methods of seal.Rotator, such as one of Tink.
type foreign struct{ ring *seal.KeyRing }

func (f foreign) Encrypt(plaintext, place []byte) ([]byte, error) {
	return f.ring.Encrypt(plaintext, place)
}

func (f foreign) Decrypt(ciphertext, place []byte) ([]byte, error) {
	plaintext, err := f.ring.Decrypt(ciphertext, place)
	if err != nil {
		return nil, errors.New("aead: decryption failed")
	}
	return plaintext, nil
}

func TestSealedStoreAcceptsForeignAEAD(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	store := sealedBy(t, v.inner, foreign{keyRing(t, v.key)})
	_, err := store.Load(t.Context(), storeKey)
	require.NoError(t, err)
	v.plant(t, storeKey, func(token *oauth.Token) { token.AccessToken = api.NewSecret(token.AccessToken.Reveal() + "A") })
	_, err = store.Load(t.Context(), storeKey)
	require.ErrorIs(t, err, tokenstore.ErrUnreadable)
	require.ErrorContains(t, err, "decryption failed")
}

func TestSealedChecksArguments(t *testing.T) {
	t.Parallel()
	memory, ring := tokenstore.NewMemoryStore(), keyRing(t, sealKey(t, "2026"))
	assert.Equal(t, "tokenstore.Sealed store", fmt.Sprint(sealedBy(t, memory, ring)))
	for field, seal := range map[string]func() (tokenstore.Store, error){
		"tokenstore.Sealed inner": func() (tokenstore.Store, error) { return tokenstore.Sealed(nil, ring) },
		"tokenstore.Sealed aead":  func() (tokenstore.Store, error) { return tokenstore.Sealed(memory, nil) },
	} {
		_, err := seal()
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, field, argument.Field)
	}
}

func TestSealedStoreClaimsReadableRecords(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	for _, key := range []tokenstore.Key{otherKey, {Environment: oauthtest.USSandbox, User: "user-19"}} {
		_, err := v.store.Save(t.Context(), key, oauthtest.FirstToken(time.Hour))
		require.NoError(t, err)
	}
	v.plant(t, storeKey, func(token *oauth.Token) { token.AccessToken = api.NewSecret(token.AccessToken.Reveal() + "A") })
	due := tokenstore.Due{Environment: oauthtest.USSandbox, Before: time.Now().Add(time.Hour), Limit: 10, Owner: "r", TTL: time.Minute}
	claimed, err := v.store.ClaimDue(t.Context(), due)
	require.NoError(t, err)
	require.Len(t, claimed, 2, "an unreadable record does not block the others")
	for _, record := range claimed {
		assert.Equal(t, "access-0", record.Token.AccessToken.Reveal())
	}
	v.plant(t, storeKey, func(*oauth.Token) {}) // a write removes its lease
	due.Retry = time.Now().Add(2 * time.Hour)
	_, err = v.store.ClaimDue(t.Context(), due)
	require.ErrorIs(t, err, tokenstore.ErrUnreadable)
	claimed, err = v.store.ClaimDue(t.Context(), due)
	require.NoError(t, err, "the unreadable record is postponed")
	assert.Empty(t, claimed)
	due.From, due.Before = due.Retry, due.Retry.Add(time.Second)
	_, err = v.store.ClaimDue(t.Context(), due)
	require.ErrorIs(t, err, tokenstore.ErrUnreadable, "no lease blocks the unreadable record")

	listed, err := v.store.List(t.Context(), tokenstore.Listing{Environment: oauthtest.USSandbox, Limit: 10})
	require.NoError(t, err)
	require.Len(t, listed, 3, "a list needs no encryption key")
	assert.Equal(t, v.record.Token.ResourceOwner, listed[0].Token.ResourceOwner)
	assert.Empty(t, listed[0].Token.AccessToken)
}

func TestSealedStoreAcceptsLongBinarySecrets(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	token := oauthtest.FirstToken(time.Hour)
	token.AccessToken = api.NewSecret("line\nline\x00\xff" + strings.Repeat("x", 64<<10))
	token.RefreshToken = api.Secret{}
	_, err := v.store.Save(t.Context(), storeKey, token)
	require.NoError(t, err)
	loaded, err := v.store.Load(t.Context(), storeKey)
	require.NoError(t, err)
	assert.True(t, token.AccessToken == loaded.Token.AccessToken, "the secret is unchanged")
	assert.Empty(t, loaded.Token.RefreshToken)
	assert.Less(t, len(v.stored(t, storeKey).Token.AccessToken.Reveal()), 88<<10)
}

// The inner store sees only ciphertexts.
func ExampleSealed() {
	key, _ := seal.GenerateKey("2026") // or seal.ParseKeyRing with a value from the environment
	ring, _ := seal.NewKeyRing(key)
	inner := tokenstore.NewMemoryStore()
	store, _ := tokenstore.Sealed(inner, ring)

	ctx := context.Background()
	us := api.USSandbox
	user := tokenstore.Key{Environment: us, User: "user-17"}
	_, _ = store.Save(ctx, user, oauth.Token{AccessToken: api.NewSecret("a-token"), RefreshToken: api.NewSecret("another"), Environment: us})

	kept, _ := inner.Load(ctx, user)
	fmt.Println(kept.Token.AccessToken.Reveal()[:8])
	opened, _ := store.Load(ctx, user)
	fmt.Println(opened.Token.AccessToken.Reveal())
	// Output:
	// sealed.1
	// a-token
}

func TestSealedReportsEncryption(t *testing.T) {
	t.Parallel()
	inner := tokenstore.NewMemoryStore()
	for want, aead := range map[bool]seal.AEAD{true: keyRing(t, sealKey(t, "2026")), false: seal.InsecurePlaintext{}} {
		store, ok := sealedBy(t, inner, aead).(interface{ Encrypts() bool })
		require.True(t, ok)
		assert.Equal(t, want, store.Encrypts())
	}
}
