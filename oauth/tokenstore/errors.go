package tokenstore

import "errors"

// Sentinels of [Store] methods. Implementations return exactly these, wrapped
// or not, for these conditions, and any other error for a failure of the store
// itself, after which the state of the record is unknown.
var (
	// ErrNoRecord: the store holds nothing under the key. Nothing was changed.
	ErrNoRecord = errors.New("tokenstore: no token is stored for this user")

	// ErrConflict: the record has another version than the caller saw, or the
	// lease is no longer the caller's. Nothing was changed. Load the record
	// and decide again.
	ErrConflict = errors.New("tokenstore: the stored token was changed by another writer")

	// ErrLeased: another owner holds a lease that has not run out. Nothing was
	// changed. Its refresh will soon move the version, or the lease will end.
	ErrLeased = errors.New("tokenstore: the stored token is being refreshed by another owner")
)

// ErrUnreadable says that the store holds a token that cannot be opened. The errors of a
// [Sealed] store that match it also match that of the AEAD, which says whether
// a key is missing ([seal.ErrUnknownKey]) or the row was changed, or copied from
// another user ([seal.ErrTampered], [seal.ErrNotSealed]). The user is not logged
// out: the key can be put back, the row restored, or the user can authorize
// again, which replaces the row unless Verify of tokens.Config has to compare its owner.
var ErrUnreadable = errors.New("tokenstore: a stored token cannot be opened")

// ErrNoResult is returned if the replica that claimed an authorization flow has not
// stored a result in time. It may have exchanged the code or not.
var ErrNoResult = errors.New("tokenstore: the replica that claimed the authorization flow stored no result")
