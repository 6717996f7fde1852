package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// version is the first byte of every ciphertext.
const version = 1

// A ciphertext is: version, length of the key's id, id, nonce, sealed bytes, tag.
// The header before the nonce is authenticated with the associated data; its own
// length is in it, so that the two cannot be mistaken for each other.
const (
	fixedHeader = 2
	gcmOverhead = 12 + 16
)

// KeyRing is an [AEAD] with one key that seals and any number that only open:
// AES-256-GCM with random nonces, from the standard library. A ciphertext begins
// with the name of its key and is 30 bytes and that name longer than what it
// holds. A KeyRing is safe for concurrent use and prints no key.
type KeyRing struct {
	keys    []ringKey // newest first
	primary int
}

// ringKey is a key that is ready for use.
type ringKey struct {
	id     string
	header []byte
	gcm    cipher.AEAD
}

var (
	_ AEAD    = (*KeyRing)(nil)
	_ Rotator = (*KeyRing)(nil)
)

// NewKeyRing makes a ring of keys, the newest first. The first one that is not
// [Key.Pending] seals. Errors are [api.ArgumentError] and name keys by their id:
// no key seals, a key is the zero Key, two keys have one id, or two ids name one
// key.
func NewKeyRing(keys ...Key) (*KeyRing, error) {
	r := &KeyRing{primary: slices.IndexFunc(keys, func(k Key) bool { return !k.pending })}
	if r.primary < 0 {
		return nil, ringProblem("no key seals: give one that is not marked as pending")
	}
	ids, known := map[string]bool{}, map[api.Secret]string{}
	for _, k := range keys {
		if k.secret.IsZero() {
			return nil, ringProblem("holds a zero Key: make it with NewKey or GenerateKey")
		}
		if ids[k.id] {
			return nil, ringProblem("has two keys with the id " + k.id)
		}
		if twin, ok := known[k.secret]; ok {
			return nil, ringProblem("has one key under two ids, " + twin + " and " + k.id)
		}
		ids[k.id], known[k.secret] = true, k.id
		ready, err := k.ready()
		if err != nil {
			return nil, err
		}
		r.keys = append(r.keys, ready)
	}
	return r, nil
}

// ParseKeyRing reads the keys of a ring from text, as from an environment
// variable: each in the form id:key, the key in base64 or in hexadecimal, newest first, with
// commas or white space between. A plus sign before an id makes its key [Key.Pending].
// Errors are [api.ArgumentError] and hold no key.
func ParseKeyRing(text api.Secret) (*KeyRing, error) {
	fields := strings.FieldsFunc(text.Reveal(), func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	var keys []Key
	for i, field := range fields {
		k, err := parseKey(api.NewSecret(field))
		if err != nil {
			return nil, fmt.Errorf("key %d of %d: %w", i+1, len(fields), err)
		}
		keys = append(keys, k)
	}
	return NewKeyRing(keys...)
}

func (k Key) ready() (ringKey, error) {
	block, err := aes.NewCipher([]byte(k.secret.Reveal()))
	if err != nil {
		return ringKey{}, err
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return ringKey{}, err
	}
	return ringKey{id: k.id, gcm: gcm, header: append([]byte{version, byte(len(k.id))}, k.id...)}, nil
}

func ringProblem(reason string) error {
	return &api.ArgumentError{Field: "seal.KeyRing", Reason: reason}
}

// Encrypt implements [AEAD] with the key that seals.
func (r *KeyRing) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	k := r.keys[r.primary]
	sealed := make([]byte, len(k.header), len(k.header)+len(plaintext)+gcmOverhead)
	copy(sealed, k.header)
	return k.gcm.Seal(sealed, nil, plaintext, k.bind(associatedData)), nil
}

// Decrypt implements [AEAD]. Errors are [ErrNotSealed], [ErrUnknownKey] and
// [ErrTampered].
func (r *KeyRing) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	at, body, err := r.find(ciphertext)
	if err != nil {
		return nil, err
	}
	k := r.keys[at]
	plaintext, err := k.gcm.Open(nil, nil, body, k.bind(associatedData))
	if err != nil {
		return nil, ErrTampered // the cipher's own words add nothing
	}
	return plaintext, nil
}

// Stale implements [Rotator]. A value that was sealed with a pending key is not stale:
// else processes that change over to it one after the other would seal each other's
// values again and again.
func (r *KeyRing) Stale(ciphertext []byte) bool {
	at, _, err := r.find(ciphertext)
	return err == nil && at > r.primary
}

// find returns the place of the key that sealed, and what it sealed.
func (r *KeyRing) find(ciphertext []byte) (int, []byte, error) {
	if len(ciphertext) < fixedHeader || ciphertext[0] != version {
		return 0, nil, ErrNotSealed
	}
	end := fixedHeader + int(ciphertext[1])
	if len(ciphertext) < end+gcmOverhead || !isID(string(ciphertext[fixedHeader:end])) {
		return 0, nil, ErrNotSealed
	}
	id := string(ciphertext[fixedHeader:end])
	at := slices.IndexFunc(r.keys, func(k ringKey) bool { return k.id == id })
	if at < 0 {
		return 0, nil, fmt.Errorf("%w: %s", ErrUnknownKey, id)
	}
	return at, ciphertext[end:], nil
}

func (k ringKey) bind(associatedData []byte) []byte {
	return append(slices.Clip(k.header), associatedData...)
}

// String lists the ids of the keys, the one that seals marked by a star.
func (r *KeyRing) String() string {
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id
		if i == r.primary {
			ids[i] += "*"
		}
	}
	return "seal.KeyRing{" + strings.Join(ids, " ") + "}"
}

// Format prints [KeyRing.String] for every verb.
func (r *KeyRing) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// MarshalText is [KeyRing.String], for encoders that would look inside.
func (r *KeyRing) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
