package webhook

import (
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/seal"
)

// What is sealed says what it is, so that an error cannot pass for a body.
const (
	purposeBody  = "webhook body "
	purposeError = "webhook error "
)

// SealBody seals the body of an event for its stay in an [Engine]. It opens only
// together with its key, so that a body that was moved to another event does not
// pass for that.
func SealBody(aead seal.AEAD, key Key, body []byte) ([]byte, error) {
	sealed, err := aead.Encrypt(body, key.bind(purposeBody))
	if err != nil {
		return nil, fmt.Errorf("webhook: body of %s was not sealed: %w", key, err)
	}
	return sealed, nil
}

// OpenBody opens what [SealBody] sealed. An error matches [ErrBodyLost] and that
// of the AEAD. An engine gives it to the worker as [Task].Err: an event whose
// body does not open waits, like any other that fails, and can be replayed once
// the key is back.
func OpenBody(aead seal.AEAD, key Key, sealed []byte) ([]byte, error) {
	body, err := aead.Decrypt(sealed, key.bind(purposeBody))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBodyLost, key, err)
	}
	return body, nil
}

// SealError seals the text of a handler's error, which may repeat patient data,
// for the [DeadLetter] of an engine.
func SealError(aead seal.AEAD, key Key, err error) ([]byte, error) {
	return aead.Encrypt([]byte(err.Error()), key.bind(purposeError))
}

// OpenError opens what [SealError] sealed, as an error with the same text. One
// that does not open is the error that says so.
func OpenError(aead seal.AEAD, key Key, sealed []byte) error {
	text, err := aead.Decrypt(sealed, key.bind(purposeError))
	if err != nil {
		return fmt.Errorf("webhook: error of %s cannot be opened: %w", key, err)
	}
	return errors.New(string(text))
}

// Reseal opens what [SealBody] and [SealError] sealed and seals it with the key
// of today, so that an engine can retire an old one. Either may be nil, and is
// nil then. Where one of them does not open nothing is returned but the error.
func Reseal(aead seal.AEAD, key Key, body, failure []byte) (freshBody, freshFailure []byte, err error) {
	if freshBody, err = reseal(aead, key.bind(purposeBody), body); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrBodyLost, key, err)
	}
	if freshFailure, err = reseal(aead, key.bind(purposeError), failure); err != nil {
		return nil, nil, fmt.Errorf("webhook: error of %s was not sealed anew: %w", key, err)
	}
	return freshBody, freshFailure, nil
}

func reseal(aead seal.AEAD, associatedData, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	plaintext, err := aead.Decrypt(sealed, associatedData)
	if err != nil {
		return nil, err
	}
	return aead.Encrypt(plaintext, associatedData)
}

func (k Key) bind(purpose string) []byte {
	text, _ := k.MarshalText() // never fails
	return append([]byte(purpose), text...)
}

// InsecurePlaintext is an AEAD that seals nothing: an engine that is given it
// keeps patient data readable for everyone who can read its storage and its
// backups. It is for looking into a test's storage, and for storage that is
// sealed as a whole by something you trust as much.
type InsecurePlaintext struct{}

// Encrypt returns a copy of plaintext.
func (InsecurePlaintext) Encrypt(plaintext, _ []byte) ([]byte, error) {
	return append([]byte(nil), plaintext...), nil
}

// Decrypt returns a copy of ciphertext.
func (InsecurePlaintext) Decrypt(ciphertext, _ []byte) ([]byte, error) {
	return append([]byte(nil), ciphertext...), nil
}
