package seal

import "errors"

// AEAD seals and opens: authenticated encryption with associated data. It has
// the methods of Tink's tink.AEAD. Implementations are safe for concurrent use.
type AEAD interface {
	// Encrypt seals plaintext. The associated data is not part of the
	// ciphertext, but has to be the same again to open it.
	Encrypt(plaintext, associatedData []byte) ([]byte, error)

	// Decrypt opens what Encrypt returned. It fails if the ciphertext or the
	// associated data differ in one bit.
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Rotator is an optional interface of an [AEAD]: it reports ciphertexts that it would
// seal with another key today. [KeyRing] implements it. Inboxes use it to seal
// these again.
type Rotator interface {
	// Stale reports a ciphertext that was sealed with a key which another one
	// has replaced since. It does not open it.
	Stale(ciphertext []byte) bool
}

// InsecurePlaintext is an AEAD that seals nothing: what is given it keeps
// its data readable for everyone who can read its storage and its backups. It is
// for looking into a test's storage, and for storage that is sealed as a whole by
// something you trust as much.
type InsecurePlaintext struct{}

// Encrypt returns a copy of plaintext.
func (InsecurePlaintext) Encrypt(plaintext, _ []byte) ([]byte, error) {
	return append([]byte(nil), plaintext...), nil
}

// Decrypt returns a copy of ciphertext.
func (InsecurePlaintext) Decrypt(ciphertext, _ []byte) ([]byte, error) {
	return append([]byte(nil), ciphertext...), nil
}

// Errors of [KeyRing.Decrypt]. They never show what is in a ciphertext.
var (
	// ErrNotSealed: these bytes are no ciphertext of a [KeyRing].
	ErrNotSealed = errors.New("dispensary: these bytes were not sealed by a key ring")

	// ErrUnknownKey: the key that sealed is not in the ring. Put it back.
	ErrUnknownKey = errors.New("dispensary: sealed with a key that is not in the ring")

	// ErrTampered: the ciphertext was changed, or belongs to another place, or
	// the ring has another key under the name of the one that sealed.
	ErrTampered = errors.New("dispensary: a sealed value was changed, or copied from another place")
)
