package seal

import "errors"

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
