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
// key. Errors are [api.ArgumentError] and do not contain the key.
func NewKey(id string, secret []byte) (Key, error) {
	switch {
	case !isID(id):
		return Key{}, keyProblem("id", "must be 1 to 32 letters, digits, dots, dashes or underscores")
	case len(secret) != keyBytes:
		return Key{}, keyProblem(id, fmt.Sprintf("has %d bytes and must have %d", len(secret), keyBytes))
	case strings.Count(string(secret), string(secret[:1])) == keyBytes:
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
