package tokenstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/tokenjson"
	"github.com/dispensary-go/dispensary/seal"
)

// Sealed returns a store that writes only encrypted secrets to inner. aead is a [seal.KeyRing]
// or any value with the methods of Tink's tink.AEAD. Create each of the three once, and use
// inner for nothing else. Sealed returns an [*api.ArgumentError] if inner or aead is nil.
//
// In inner, the access token is the ciphertext of the whole token, and the refresh token is a
// second ciphertext. Both can be decrypted only for the environment and user for which they
// were encrypted, and only together. If a row or one of its ciphertexts was copied to another
// user, Load returns [ErrUnreadable]. It never returns another user's token, and never treats
// the user as not connected.
//
// The other fields stay readable in inner, which uses them for lists and due times. Load
// ignores them and restores every field from the ciphertext. An older backup of the same row
// can be decrypted. The platform then accepts or rejects that token.
//
// A ciphertext is one third longer than its plaintext, which includes the replaced grants. For
// tokens of 64 KiB without replaced grants, inner must accept secrets of 88 KiB.
//
// # Rotation
//
// Every write uses the current key of aead, so a refresh encrypts the record with it. To
// retire a key, load every record of [Store].List and write it with [Store].SaveVersion before
// you remove the key. This clears [StateReauthorize] of users who must authorize again, until
// their next call.
func Sealed(inner Store, aead seal.AEAD) (Store, error) {
	switch {
	case inner == nil:
		return nil, &api.ArgumentError{Field: "tokenstore.Sealed inner", Reason: "is nil"}
	case aead == nil:
		return nil, &api.ArgumentError{Field: "tokenstore.Sealed aead", Reason: "is nil"}
	}
	return &sealedStore{inner: inner, aead: aead}, nil
}

// sealedStore is a [Store] that encrypts the tokens in its inner store.
type sealedStore struct {
	inner Store
	aead  seal.AEAD
}

// Load implements [Store].
func (s *sealedStore) Load(ctx context.Context, key Key) (Record, error) {
	stored, err := s.inner.Load(ctx, key)
	if err != nil {
		return Record{}, err
	}
	return s.open(key, stored)
}

// Save implements [Store].
func (s *sealedStore) Save(ctx context.Context, key Key, token oauth.Token) (Record, error) {
	return s.write(key, token, func(sealed oauth.Token) (Record, error) { return s.inner.Save(ctx, key, sealed) })
}

// SaveVersion implements [Store].
func (s *sealedStore) SaveVersion(ctx context.Context, key Key, version int64, token oauth.Token) (Record, error) {
	return s.write(key, token, func(sealed oauth.Token) (Record, error) { return s.inner.SaveVersion(ctx, key, version, sealed) })
}

// DeleteVersion implements [Store].
func (s *sealedStore) DeleteVersion(ctx context.Context, key Key, version int64) error {
	return s.inner.DeleteVersion(ctx, key, version)
}

// Lease implements [Store]. It releases the lease if it cannot decrypt the token.
func (s *sealedStore) Lease(ctx context.Context, lease Lease, ttl time.Duration) (Record, error) {
	stored, err := s.inner.Lease(ctx, lease, ttl)
	if err != nil {
		return Record{}, err
	}
	record, err := s.open(lease.Key, stored)
	if err != nil {
		return Record{}, errors.Join(err, s.inner.Release(ctx, lease))
	}
	return record, nil
}

// Commit implements [Store].
func (s *sealedStore) Commit(ctx context.Context, lease Lease, token oauth.Token) (Record, error) {
	return s.write(lease.Key, token, func(sealed oauth.Token) (Record, error) { return s.inner.Commit(ctx, lease, sealed) })
}

// Fail implements [Store].
func (s *sealedStore) Fail(ctx context.Context, lease Lease, token oauth.Token, reason Reason) (Record, error) {
	return s.write(lease.Key, token, func(sealed oauth.Token) (Record, error) { return s.inner.Fail(ctx, lease, sealed, reason) })
}

// Release implements [Store].
func (s *sealedStore) Release(ctx context.Context, lease Lease) error {
	return s.inner.Release(ctx, lease)
}

// CheckWrite implements [Store].
func (s *sealedStore) CheckWrite(ctx context.Context) error { return s.inner.CheckWrite(ctx) }

// String returns the name of the type, without any content.
func (s *sealedStore) String() string { return "tokenstore.Sealed store" }

// Format prints [sealedStore.String] for every verb.
func (s *sealedStore) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// List implements [Store]. It decrypts nothing.
func (s *sealedStore) List(ctx context.Context, listing Listing) ([]Record, error) {
	return s.inner.List(ctx, listing)
}

// ListClinics implements [Store].
func (s *sealedStore) ListClinics(ctx context.Context, environment api.Environment, after string, limit int) ([]string, error) {
	return s.inner.ListClinics(ctx, environment, after, limit)
}

// ClaimDue implements [Store].
func (s *sealedStore) ClaimDue(ctx context.Context, due Due) ([]Record, error) {
	stored, err := s.inner.ClaimDue(ctx, due)
	if err != nil {
		return nil, err
	}
	var unreadable, failure error
	records := make([]Record, 0, len(stored))
	for _, claimed := range stored {
		record, err := s.open(claimed.Key, claimed)
		if err == nil {
			records = append(records, record)
			continue
		}
		unreadable = err
		if !due.Retry.IsZero() {
			failure = cmp.Or(failure, s.inner.Postpone(ctx, Lease{Key: claimed.Key, Version: claimed.Version, Owner: due.Owner}, due.Retry))
		}
	}
	if len(records) > 0 {
		return records, nil
	}
	return nil, cmp.Or(failure, unreadable)
}

// Postpone implements [Store].
func (s *sealedStore) Postpone(ctx context.Context, lease Lease, until time.Time) error {
	return s.inner.Postpone(ctx, lease, until)
}

// ClaimFlow implements [Store]. A flow contains no secret.
func (s *sealedStore) ClaimFlow(ctx context.Context, claim FlowClaim, ttl time.Duration) (string, error) {
	return s.inner.ClaimFlow(ctx, claim, ttl)
}

// EndFlow implements [Store].
func (s *sealedStore) EndFlow(ctx context.Context, claim FlowClaim, result string) error {
	return s.inner.EndFlow(ctx, claim, result)
}

// write passes the encrypted token to the inner store and returns the record with the original
// token.
func (s *sealedStore) write(key Key, token oauth.Token, write func(oauth.Token) (Record, error)) (Record, error) {
	if err := key.ValidateToken(token); err != nil {
		return Record{}, err
	}
	sealed, err := s.sealToken(key, token)
	if err != nil {
		return Record{}, fmt.Errorf("dispensary: cannot encrypt the token of %s: %w", key, err)
	}
	record, err := write(sealed)
	if err != nil {
		return Record{}, err
	}
	record.Token = token
	return record, nil
}

// sealToken returns token with two ciphertexts as its secrets and without its replaced grants.
// The plaintext of the access token begins with a line of JSON, which contains all other
// fields and the replaced grants. The access token follows unchanged.
func (s *sealedStore) sealToken(key Key, token oauth.Token) (oauth.Token, error) {
	head, err := tokenjson.Marshal(token)
	if err != nil {
		return oauth.Token{}, err
	}
	plaintext := append(append(head, '\n'), token.AccessToken.Reveal()...)
	ciphertext, err := s.aead.Encrypt(plaintext, associatedData(key, "access", api.Secret{}))
	if err != nil {
		return oauth.Token{}, err
	}
	token.AccessToken, token.Replaced = pack(ciphertext), nil
	if token.RefreshToken.IsZero() {
		return token, nil
	}
	ciphertext, err = s.aead.Encrypt([]byte(token.RefreshToken.Reveal()), associatedData(key, "refresh", token.AccessToken))
	token.RefreshToken = pack(ciphertext)
	return token, err
}

// open returns the stored record of key with its token decrypted.
func (s *sealedStore) open(key Key, stored Record) (Record, error) {
	token, err := s.openToken(key, stored.Token)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %s: %w", ErrUnreadable, key, err)
	}
	stored.Key, stored.Token = key, token
	return stored, nil
}

func (s *sealedStore) openToken(key Key, sealed oauth.Token) (oauth.Token, error) {
	plaintext, err := s.unseal(sealed.AccessToken, associatedData(key, "access", api.Secret{}))
	if err != nil {
		return oauth.Token{}, err
	}
	head, secret, _ := strings.Cut(string(plaintext), "\n")
	token, refreshable, err := tokenjson.Unmarshal([]byte(head))
	if err != nil {
		return oauth.Token{}, seal.ErrTampered // the decoder's error may contain the plaintext
	}
	token.AccessToken = api.NewSecret(secret)
	if !refreshable {
		return token, nil
	}
	refresh, err := s.unseal(sealed.RefreshToken, associatedData(key, "refresh", sealed.AccessToken))
	token.RefreshToken = api.NewSecret(string(refresh))
	return token, err
}

func (s *sealedStore) unseal(secret api.Secret, data []byte) ([]byte, error) {
	ciphertext, err := unpack(secret)
	if err != nil {
		return nil, err
	}
	return s.aead.Decrypt(ciphertext, data)
}

// associatedData binds a ciphertext to a key and a field. The separator is safe, because
// environments and users contain no zero byte. beside binds a refresh token to one access
// token.
func associatedData(key Key, field string, beside api.Secret) []byte {
	return []byte(strings.Join([]string{"dispensary/oauth/token", field, key.Environment.String(), key.User, beside.Reveal()}, "\x00"))
}

// sealedPrefix distinguishes a ciphertext from a token that was stored in plaintext.
const sealedPrefix = "sealed.1."

func pack(ciphertext []byte) api.Secret {
	return api.NewSecret(sealedPrefix + base64.RawURLEncoding.EncodeToString(ciphertext))
}

func unpack(secret api.Secret) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret.Reveal(), sealedPrefix)
	if !ok {
		return nil, seal.ErrNotSealed
	}
	ciphertext, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, seal.ErrTampered
	}
	return ciphertext, nil
}

// Encrypts reports, for package doctor, whether stored tokens are encrypted. It is false with
// [seal.InsecurePlaintext].
func (s *sealedStore) Encrypts() bool {
	_, plain := s.aead.(seal.InsecurePlaintext)
	return !plain
}
