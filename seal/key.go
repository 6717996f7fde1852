package seal

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// keyBytes is the length of an AES-256 key.
const keyBytes = 32

// maxIDBytes keeps the id's length in one byte of the ciphertext, with room.
const maxIDBytes = 32

// pendingMark stands before the id of a key that does not seal yet.
const pendingMark = "+"

// Key is a named key of a [KeyRing]. It prints its id and no more.
type Key struct {
	id      string
	pending bool
	secret  api.Secret // the bytes
}

// NewKey makes a key of 32 bytes. The id names it in every ciphertext: 1 to 32
// letters, digits, dots, dashes and underscores, never used for another key.
// Errors are [api.ArgumentError] and do not hold the key.
func NewKey(id string, secret []byte) (Key, error) {
	switch {
	case !isID(id):
		return Key{}, keyProblem("id", "must be 1 to 32 letters, digits, dots, dashes or underscores")
	case len(secret) != keyBytes:
		return Key{}, keyProblem(id, fmt.Sprintf("has %d bytes and must have %d", len(secret), keyBytes))
	case strings.Count(string(secret), string(secret[:1])) == keyBytes:
		return Key{}, keyProblem(id, "has the same byte everywhere: it is not random")
	}
	return Key{id: id, secret: api.NewSecret(string(secret))}, nil
}

// GenerateKey makes a new random key.
func GenerateKey(id string) (Key, error) {
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // never fails, by its documentation
	return NewKey(id, secret)
}

// parseKey reads the form id:key, the key in base64 or in hexadecimal. A plus
// sign before the id makes it [Key.Pending].
func parseKey(text api.Secret) (Key, error) {
	id, encoded, found := strings.Cut(strings.TrimSpace(text.Reveal()), ":")
	if !found {
		// Without a colon the text may be the key alone: it must not be shown.
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

// decodeKey takes every usual form. Hexadecimal digits are valid base64 too; the
// number of characters decides.
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

// Pending returns the key as one that opens and does not seal yet.
func (k Key) Pending() Key {
	k.pending = true
	return k
}

// Text returns the form that [ParseKeyRing] reads, to be kept in a safe place.
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

// String returns the id.
func (k Key) String() string {
	if k.pending {
		return "seal.Key{" + pendingMark + k.id + "}"
	}
	return "seal.Key{" + k.id + "}"
}

// Format prints [Key.String] for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText is [Key.String], for encoders that would look inside.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
