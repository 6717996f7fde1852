package tokenstore

import "errors"

// Sentinel errors of [Store] methods. For these conditions an implementation returns exactly
// these errors, wrapped or not. Any other error is a failure of the store itself. The state of
// the record is then unknown.
var (
	// ErrNoRecord: no record is stored under the key. The call changed nothing.
	ErrNoRecord = errors.New("tokenstore: no token is stored for this user")

	// ErrConflict: the record has a version other than the caller's, or the caller no longer
	// has the lease. The call changed nothing. Load the record and decide again.
	ErrConflict = errors.New("tokenstore: the stored token was changed by another writer")

	// ErrLeased: another owner has an unexpired lease. The call changed nothing. The other
	// owner's refresh will soon change the version, or its lease will expire.
	ErrLeased = errors.New("tokenstore: the stored token is being refreshed by another owner")
)

// ErrUnreadable is returned if a stored token cannot be decrypted. A [Sealed] store also wraps
// the error of its AEAD: [seal.ErrUnknownKey] if a key is missing, [seal.ErrTampered] or
// [seal.ErrNotSealed] if the row was changed or copied from another user. The user is still
// connected. Add the key again, restore the row, or let the user authorize again. A new
// authorization replaces the row, unless tokens.Config has a Verify function: it would have to
// compare the owner of the unreadable token.
var ErrUnreadable = errors.New("tokenstore: a stored token cannot be decrypted")

// ErrNoResult is returned if the replica that claimed an authorization flow stored no result
// in time. It may or may not have exchanged the code.
var ErrNoResult = errors.New("tokenstore: the claim of the authorization flow expired without a result")
