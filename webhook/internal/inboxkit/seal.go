package inboxkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// The purpose is part of the associated data, so that an encrypted error cannot pass for a
// body.
const (
	purposeBody  = "webhook body "
	purposeError = "webhook error "
)

// SealBody encrypts the body of an event for storage in an [engine.Engine]. The ciphertext is
// bound to key, so it cannot be decrypted as the body of another event.
func SealBody(aead seal.AEAD, key webhook.Key, body []byte) ([]byte, error) {
	sealed, err := aead.Encrypt(body, bind(key, purposeBody))
	if err != nil {
		return nil, fmt.Errorf("engine: encrypt body of %s: %w", key, err)
	}
	return sealed, nil
}

// OpenBody decrypts a body from [SealBody]. Its error matches [webhook.ErrBodyLost] and the
// error of the AEAD. An engine passes it to the worker as [Task].Err. The event then waits
// like any other failed event, and can be replayed once the key is back.
func OpenBody(aead seal.AEAD, key webhook.Key, sealed []byte) ([]byte, error) {
	body, err := aead.Decrypt(sealed, bind(key, purposeBody))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", webhook.ErrBodyLost, key, err)
	}
	return body, nil
}

// SealError encrypts the text of a handler's error for a dead letter, because the text may
// contain patient data. It returns nil if encryption fails. The dead letter then has only its
// reason.
func SealError(aead seal.AEAD, key webhook.Key, failure error) []byte {
	sealed, err := aead.Encrypt([]byte(failure.Error()), bind(key, purposeError))
	if err != nil {
		return nil
	}
	return sealed
}

// OpenError decrypts an error from [SealError] and returns an error with the same text. If
// decryption fails, it returns the error of the decryption instead.
func OpenError(aead seal.AEAD, key webhook.Key, sealed []byte) error {
	text, err := aead.Decrypt(sealed, bind(key, purposeError))
	if err != nil {
		return fmt.Errorf("engine: decrypt stored error of %s: %w", key, err)
	}
	return errors.New(string(text))
}

// OpenEvent implements Open of an [engine.Engine] that encrypts bodies and errors. It lists
// the event, calls read for its stored body and error, and decrypts both. It returns
// [engine.ErrNotStored] if the event is not listed. read must return that error if the event
// is gone.
func OpenEvent(
	ctx context.Context, of engine.Engine, aead seal.AEAD, key webhook.Key, read func(engine.Event) (body, failure []byte, err error),
) (engine.Event, error) {
	found, err := of.List(ctx, engine.Filter{Keys: []webhook.Key{key}}, engine.Page{Limit: 1})
	if err != nil {
		return engine.Event{}, err
	}
	if len(found) == 0 {
		return engine.Event{}, engine.ErrNotStored
	}
	e := found[0]
	body, failure, err := read(e)
	if err != nil {
		return engine.Event{}, err
	}
	if e.Body, err = OpenBody(aead, key, body); err != nil {
		return engine.Event{}, err
	}
	if failure != nil {
		e.Err = OpenError(aead, key, failure)
	}
	return e, nil
}

// ErrNoRotator is returned if the AEAD cannot report the key of a ciphertext.
var ErrNoRotator = errors.New("engine: the AEAD must implement seal.Rotator to find old keys")

// Sealed contains the encrypted parts of an event. Failure is the error of a dead letter, nil
// for other events. The fresh fields are encrypted with the current key.
type Sealed struct {
	Key                                    string
	Body, Failure, FreshBody, FreshFailure []byte
}

// ResealPages implements Reseal of an engine. It encrypts with the current key all bodies and
// errors that are encrypted with an older key. next returns a page without fresh fields, and
// an empty page at the end. store replaces the rows of the page unless they have changed, and
// returns their number. ResealPages returns the sum.
//
// If a body cannot be decrypted, ResealPages leaves it unchanged and continues with the next
// one.
//
// Errors:
//   - the first error of next or store
//   - [webhook.ErrBodyLost] for the first undecryptable body
//   - [ErrNoRotator] if aead does not implement [seal.Rotator]
func ResealPages(aead seal.AEAD, next func() ([]Sealed, error), store func([]Sealed) (int, error)) (total int, err error) {
	rotator, ok := aead.(seal.Rotator)
	if !ok {
		return 0, ErrNoRotator
	}
	var lost error
	for {
		page, err := next()
		if err != nil || len(page) == 0 {
			return total, errors.Join(lost, err)
		}
		var stale []Sealed
		for _, s := range page {
			var key webhook.Key
			if err = key.UnmarshalText([]byte(s.Key)); err == nil {
				s.FreshBody, s.FreshFailure, err = resealBoth(aead, rotator, key, s.Body, s.Failure)
			}
			lost = cmp.Or(lost, err)
			if s.FreshBody != nil {
				stale = append(stale, s)
			}
		}
		n, err := store(stale)
		total += n
		if err != nil {
			return total, errors.Join(lost, err)
		}
	}
}

// resealBoth encrypts body and failure with the current key if at least one of them is stale.
// Otherwise it returns nil for both. failure may be nil. It always decrypts both, because an
// operator who retires a key must learn of each event that cannot be decrypted.
func resealBoth(aead seal.AEAD, rotator seal.Rotator, key webhook.Key, body, failure []byte) (freshBody, freshFailure []byte, err error) {
	stale := rotator.Stale(body)
	if freshBody, err = reseal(aead, bind(key, purposeBody), body); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", webhook.ErrBodyLost, key, err)
	}
	if failure != nil {
		stale = stale || rotator.Stale(failure)
		if freshFailure, err = reseal(aead, bind(key, purposeError), failure); err != nil {
			return nil, nil, fmt.Errorf("engine: encrypt stored error of %s with the current key: %w", key, err)
		}
	}
	if !stale {
		return nil, nil, nil
	}
	return freshBody, freshFailure, nil
}

func reseal(aead seal.AEAD, associatedData, sealed []byte) ([]byte, error) {
	plaintext, err := aead.Decrypt(sealed, associatedData)
	if err != nil {
		return nil, err
	}
	return aead.Encrypt(plaintext, associatedData)
}

func bind(key webhook.Key, purpose string) []byte {
	return append([]byte(purpose), key.String()...)
}
