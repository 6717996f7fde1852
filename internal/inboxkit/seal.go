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

// What is sealed says what it is, so that an error cannot pass for a body.
const (
	purposeBody  = "webhook body "
	purposeError = "webhook error "
)

// SealBody seals the body of an event for its stay in an [engine.Engine]. It opens only
// together with its key, so that a body that was moved to another event does not
// pass for that.
func SealBody(aead seal.AEAD, key webhook.Key, body []byte) ([]byte, error) {
	sealed, err := aead.Encrypt(body, bind(key, purposeBody))
	if err != nil {
		return nil, fmt.Errorf("engine: body of %s was not sealed: %w", key, err)
	}
	return sealed, nil
}

// OpenBody opens what [SealBody] sealed. An error matches [webhook.ErrBodyLost] and that
// of the AEAD. An engine gives it to the worker as [Task].Err: an event whose
// body does not open waits, like any other that fails, and can be replayed once
// the key is back.
func OpenBody(aead seal.AEAD, key webhook.Key, sealed []byte) ([]byte, error) {
	body, err := aead.Decrypt(sealed, bind(key, purposeBody))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", webhook.ErrBodyLost, key, err)
	}
	return body, nil
}

// SealError seals the text of a handler's error, which may repeat patient data, for a dead
// letter. It is nil if it cannot be sealed: then the reason has to do.
func SealError(aead seal.AEAD, key webhook.Key, failure error) []byte {
	sealed, err := aead.Encrypt([]byte(failure.Error()), bind(key, purposeError))
	if err != nil {
		return nil
	}
	return sealed
}

// OpenError opens what [SealError] sealed, as an error with the same text. One
// that does not open is the error that says so.
func OpenError(aead seal.AEAD, key webhook.Key, sealed []byte) error {
	text, err := aead.Decrypt(sealed, bind(key, purposeError))
	if err != nil {
		return fmt.Errorf("engine: error of %s cannot be opened: %w", key, err)
	}
	return errors.New(string(text))
}

// OpenEvent is Open of an [engine.Engine] that stores bodies and errors sealed: it lists the
// event, has read return what is stored of it, and opens that. A read that finds nothing
// any more returns [engine.ErrNotStored].
func OpenEvent(
	ctx context.Context, of engine.Engine, aead seal.AEAD, key webhook.Key, read func(engine.Event) (body, failure []byte, err error),
) (engine.Event, error) {
	found, err := of.List(ctx, engine.Filter{Keys: []webhook.Key{key}}, engine.Position{}, 1)
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

// ErrNoRotator is returned for an AEAD that cannot tell which of its keys has sealed.
var ErrNoRotator = errors.New("engine: the AEAD is no seal.Rotator, and cannot tell which key is old")

// Sealed contains the encrypted parts of an event. Failure is the error of a dead letter, and else
// nil. The fresh fields are encrypted with the current key.
type Sealed struct {
	Key                                    string
	Body, Failure, FreshBody, FreshFailure []byte
}

// ResealPages implements the method Reseal of an engine: it encrypts, with the current key,
// the bodies and errors that an older key has encrypted. next returns a page without fresh
// fields and an empty page at the end. store replaces the rows that next has read unless
// they have changed, and returns their number. ResealPages returns the sum.
//
// A body that cannot be decrypted stays, and the next ones are encrypted.
//
// Errors: the first one of next and store; [webhook.ErrBodyLost] for the first body that
// cannot be decrypted; [ErrNoRotator] if aead is no [seal.Rotator].
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

// resealBoth encrypts body and failure with the current key if one of them is stale. Otherwise
// it returns nil for both. failure may be nil. It always decrypts both: an operator who
// retires a key must learn of each event that cannot be decrypted.
func resealBoth(aead seal.AEAD, rotator seal.Rotator, key webhook.Key, body, failure []byte) (freshBody, freshFailure []byte, err error) {
	stale := rotator.Stale(body)
	if freshBody, err = reseal(aead, bind(key, purposeBody), body); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", webhook.ErrBodyLost, key, err)
	}
	if failure != nil {
		stale = stale || rotator.Stale(failure)
		if freshFailure, err = reseal(aead, bind(key, purposeError), failure); err != nil {
			return nil, nil, fmt.Errorf("engine: error of %s was not sealed anew: %w", key, err)
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
