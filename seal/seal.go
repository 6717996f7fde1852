package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// AEAD encrypts and decrypts with associated data. It has the methods of Tink's tink.AEAD.
// Implementations are safe for concurrent use.
type AEAD interface {
	// Encrypt returns the ciphertext of plaintext. The ciphertext does not contain the
	// associated data, but Decrypt needs the same data.
	Encrypt(plaintext, associatedData []byte) ([]byte, error)

	// Decrypt returns the plaintext of a ciphertext from Encrypt. It fails if one bit of the
	// ciphertext or the associated data differs.
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Rotator is an optional interface of an [AEAD]. It reports ciphertexts whose key is no longer
// the one for new values. [KeyRing] implements it. Inboxes use it to encrypt such values
// again.
type Rotator interface {
	// Stale reports whether another key has since replaced the key of ciphertext. It does not
	// decrypt.
	Stale(ciphertext []byte) bool
}

// InsecurePlaintext is an AEAD that does not encrypt: everyone with access to the storage or
// its backups can read the data. Use it to inspect the storage of a test, or if something that
// you trust as much encrypts the storage as a whole.
type InsecurePlaintext struct{}

// Encrypt returns a copy of plaintext.
func (InsecurePlaintext) Encrypt(plaintext, _ []byte) ([]byte, error) {
	return append([]byte(nil), plaintext...), nil
}

// Decrypt returns a copy of ciphertext.
func (InsecurePlaintext) Decrypt(ciphertext, _ []byte) ([]byte, error) {
	return append([]byte(nil), ciphertext...), nil
}

// Errors of [KeyRing.Decrypt]. They never show the content of a ciphertext.
var (
	// ErrNotSealed: the bytes are not a ciphertext of a [KeyRing].
	ErrNotSealed = errors.New("dispensary: the bytes are not a ciphertext of a key ring")

	// ErrUnknownKey: the key of the ciphertext is not in the ring. Put it back.
	ErrUnknownKey = errors.New("dispensary: the key of the ciphertext is not in the ring")

	// ErrTampered: the ciphertext was changed or copied from another place, or the ring has
	// another key with the same id.
	ErrTampered = errors.New("dispensary: a ciphertext was changed or copied from another place")
)

// keyBytes is the length of an AES-256 key.
const keyBytes = 32

// maxIDBytes limits an id, whose length is one byte of the ciphertext.
const maxIDBytes = 32

// pendingMark precedes the id of a pending key.
const pendingMark = "+"

// Key is a named key of a [KeyRing]. It prints only its id.
type Key struct {
	id      string
	pending bool
	secret  api.Secret // raw bytes
}

// NewKey creates a key from a random secret of 32 bytes. The id identifies the key in every
// ciphertext: 1 to 32 letters, digits, dots, dashes or underscores. Never use it for another
// key. NewKey rejects a secret of equal bytes: tests call [GenerateKey]. Errors are
// [api.ArgumentError] and do not contain the key.
func NewKey(id string, secret []byte) (Key, error) {
	switch {
	case !isID(id):
		return Key{}, keyProblem("id", "must be 1 to 32 letters, digits, dots, dashes or underscores")
	case len(secret) != keyBytes:
		return Key{}, keyProblem(id, fmt.Sprintf("has %d bytes and must have %d", len(secret), keyBytes))
	case bytes.Count(secret, secret[:1]) == keyBytes:
		return Key{}, keyProblem(id, "is not random: all bytes are the same")
	}
	return Key{id: id, secret: api.NewSecret(string(secret))}, nil
}

// GenerateKey creates a random key with this id, under the rules of [NewKey].
func GenerateKey(id string) (Key, error) {
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // documented to never fail
	return NewKey(id, secret)
}

// parseKey parses the form id:key, with the key in base64 or hexadecimal. A plus sign before
// the id returns [Key.Pending].
func parseKey(text api.Secret) (Key, error) {
	id, encoded, found := strings.Cut(strings.TrimSpace(text.Reveal()), ":")
	if !found {
		// Without a colon the text may be the key alone, so the error must not show it.
		return Key{}, keyProblem("text", "must have the form id:key")
	}
	id, pending := strings.CutPrefix(id, pendingMark)
	if !isID(id) {
		return Key{}, keyProblem("id", "must be 1 to 32 letters, digits, dots, dashes or underscores")
	}
	secret, err := decodeKey(encoded)
	if err != nil {
		return Key{}, keyProblem(id, "is neither base64 nor hexadecimal")
	}
	k, err := NewKey(id, secret)
	k.pending = pending && err == nil
	return k, err
}

// decodeKey accepts base64, base64url and hexadecimal. Hexadecimal digits are valid base64
// too, so the number of characters decides.
func decodeKey(text string) ([]byte, error) {
	if len(text) == hex.EncodedLen(keyBytes) {
		return hex.DecodeString(text)
	}
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	return base64.RawStdEncoding.DecodeString(text)
}

func isID(id string) bool {
	return id != "" && len(id) <= maxIDBytes && !strings.ContainsFunc(id, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}

func keyProblem(name, reason string) error {
	return &api.ArgumentError{Field: "seal.Key " + name, Reason: reason}
}

// Pending returns a copy of the key that decrypts but does not encrypt yet.
func (k Key) Pending() Key {
	k.pending = true
	return k
}

// Text returns the key in the form that [ParseKeyRing] reads, for your secret store. The zero
// Key returns the zero Secret.
func (k Key) Text() api.Secret {
	if k.secret.IsZero() {
		return api.Secret{}
	}
	text := k.id + ":" + base64.StdEncoding.EncodeToString([]byte(k.secret.Reveal()))
	if k.pending {
		text = pendingMark + text
	}
	return api.NewSecret(text)
}

// String returns the id, with a plus sign if the key is pending.
func (k Key) String() string {
	if k.pending {
		return "seal.Key{" + pendingMark + k.id + "}"
	}
	return "seal.Key{" + k.id + "}"
}

// Format prints [Key.String] for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText returns [Key.String], because encoders would read the unexported fields.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// version is the first byte of every ciphertext.
const version = 1

// A ciphertext consists of version, length of the key's id, id, nonce, encrypted bytes and
// tag. The header before the nonce is authenticated together with the associated data. It
// contains its own length, so that no byte can move between the two.
const (
	fixedHeader = 2
	gcmOverhead = 12 + 16
)

// KeyRing is an [AEAD] with one key that encrypts and any number of keys that only decrypt. It
// uses AES-256-GCM with random nonces from the standard library. A ciphertext begins with the
// id of its key. It is 30 bytes plus that id longer than its plaintext. A KeyRing is safe for
// concurrent use and prints no key.
type KeyRing struct {
	keys    []ringKey // newest first
	primary int
}

// ringKey is a key with its cipher and the header of its ciphertexts.
type ringKey struct {
	id     string
	header []byte
	gcm    cipher.AEAD
}

var (
	_ AEAD    = (*KeyRing)(nil)
	_ Rotator = (*KeyRing)(nil)
)

// NewKeyRing creates a ring. List the newest key first. The first key that is not
// [Key.Pending] encrypts. Errors are [api.ArgumentError] and name keys by their id:
//
//   - no key encrypts
//   - a key is the zero Key
//   - two keys have the same id
//   - two ids have the same key
func NewKeyRing(keys ...Key) (*KeyRing, error) {
	r := &KeyRing{primary: slices.IndexFunc(keys, func(k Key) bool { return !k.pending })}
	if r.primary < 0 {
		return nil, ringProblem("needs a key that is not pending")
	}
	ids, known := map[string]bool{}, map[api.Secret]string{}
	for _, k := range keys {
		if k.secret.IsZero() {
			return nil, ringProblem("contains a zero Key: create keys with NewKey or GenerateKey")
		}
		if ids[k.id] {
			return nil, ringProblem("contains two keys with the id " + k.id)
		}
		if twin, ok := known[k.secret]; ok {
			return nil, ringProblem("contains the same key under two ids, " + twin + " and " + k.id)
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

// ParseKeyRing parses the keys of a ring from text, such as an environment variable. Each key
// has the form id:key, with the key in base64 or hexadecimal. List the newest first, with
// commas or white space between keys. A plus sign before an id marks its key as [Key.Pending].
// Errors are [api.ArgumentError] and contain no key.
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

// Encrypt implements [AEAD] with the first key that is not pending.
func (r *KeyRing) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	k := r.keys[r.primary]
	sealed := make([]byte, len(k.header), len(k.header)+len(plaintext)+gcmOverhead)
	copy(sealed, k.header)
	return k.gcm.Seal(sealed, nil, plaintext, k.bind(associatedData)), nil
}

// Decrypt implements [AEAD] with the key named in the ciphertext. If it fails, the error is
// [ErrNotSealed], [ErrUnknownKey] or [ErrTampered].
func (r *KeyRing) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	at, body, err := r.find(ciphertext)
	if err != nil {
		return nil, err
	}
	k := r.keys[at]
	plaintext, err := k.gcm.Open(nil, nil, body, k.bind(associatedData))
	if err != nil {
		return nil, ErrTampered // the cipher's error adds no information
	}
	return plaintext, nil
}

// Stale implements [Rotator]. It reports false if the ring lacks the key of the value. A value
// of a pending key is not stale. Otherwise processes that adopt the new key one after another
// would encrypt each other's values again and again.
func (r *KeyRing) Stale(ciphertext []byte) bool {
	at, _, err := r.find(ciphertext)
	return err == nil && at > r.primary
}

// find returns the index of the ciphertext's key and the bytes after the header.
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

// String lists the ids of the keys, with a star after the one that encrypts.
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

// MarshalText returns [KeyRing.String], because encoders would read the unexported fields.
func (r *KeyRing) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
