package oauth

import (
	"context"
	"time"
)

// Lease is the right to replace one version of one record. The version is what
// the holder has seen; the owner is a text that no one else uses.
type Lease struct {
	Key     Key
	Version int64
	Owner   string
}

// Store keeps the tokens of all users, for all replicas of a program. It does
// three small things atomically and never waits: whoever refreshes a token
// takes a short lease on its record, calls the platform while nothing is
// locked, and writes the result if the record has not moved.
//
//	load ─► lease(version, owner, ttl) ─► POST /oauth/token ─► commit(version+owner)
//	                                                        ├► fail: only the user can help
//	                                                        └► release: try again later
//
// # Versions
//
// Save, Commit and Fail give the record a new version, greater than every
// version its key ever had, also across Delete. (A store that forgets deleted
// rows can begin with the time in microseconds.) Lease and Release do not
// change it.
//
// # Leases
//
// A record has at most one lease: an owner and an end. A lease that has run out
// keeps others from nothing, but its owner may still Commit or Fail as long as
// no one else has taken a lease and no one has written. The store's own clock
// measures the time.
//
// # Errors
//
// [ErrNoRecord], [ErrConflict] and [ErrLeased] are returned as each method
// says, and mean that nothing was changed. Any other error is a failure of the
// store, after which the record may or may not have been written. No error's
// text holds a token.
//
// # Content
//
// Every field of a [Token] comes back as it was written, times to the
// microsecond in any location. Secrets are opaque texts of up to 64 KiB: an
// implementation, or another Store around it, may seal them with the key as
// associated data. Users are compared byte by byte.
//
// Methods are safe for concurrent use, return when ctx ends, and hold no lock,
// transaction or connection after they return. The dynamic type of a Store is
// comparable, which every pointer is.
//
// # Time
//
// A method may be slow for a moment: how long to wait is up to the callers of
// [UserTokenSource], who leave when their contexts end. Only a call that does not
// come back is given up, after a minute; writing a new pair, which is repeated until
// it succeeds, is tried anew sooner.
type Store interface {
	// Load returns the record of key, or [ErrNoRecord].
	Load(ctx context.Context, key Key) (Record, error)

	// Save stores a first or renewed authorization: it inserts or replaces the
	// record, makes it [StateActive], clears its reason and ends any lease. It
	// does not look at the version: what the user just authorized is newer
	// than anything else. A token that fails [Token.ValidFor] is refused with
	// that error.
	Save(ctx context.Context, key Key, token Token) (Record, error)

	// Delete forgets the record and its lease. Deleting what is not there is
	// no error. It does not revoke the token, see [Client.Revoke].
	Delete(ctx context.Context, key Key) error

	// DeleteVersion is Delete of this version of the record, and no other: a
	// token that was written meanwhile stays.
	//
	// Errors: [ErrConflict] if the version is another one.
	DeleteVersion(ctx context.Context, key Key, version int64) error

	// Lease takes the lease on the record for ttl and returns the record as it
	// is then, in whatever state. An owner that holds the lease already
	// prolongs it.
	//
	// Errors: [ErrNoRecord]; [ErrConflict] if the version is another one;
	// [ErrLeased] if another owner holds a lease that has not run out.
	Lease(ctx context.Context, lease Lease, ttl time.Duration) (Record, error)

	// Commit replaces the token by what a refresh returned, makes the record
	// [StateActive], clears its reason and ends the lease. The write is
	// durable when it returns: only then is the new token used.
	//
	// Errors: [ErrNoRecord]; [ErrConflict] if the version is another one or
	// the last lease was not taken by this owner, or was released; that of
	// [Token.ValidFor].
	Commit(ctx context.Context, lease Lease, token Token) (Record, error)

	// Fail makes the record [StateReauthorize] with reason and ends the lease.
	// The token stays. Errors are those of Commit.
	Fail(ctx context.Context, lease Lease, reason Reason) (Record, error)

	// Release ends the lease without a result, so that others need not wait
	// for its end. A lease that is not this owner's any more is left alone,
	// which is no error.
	Release(ctx context.Context, lease Lease) error
}
