// Package tokenstore defines the contract between package oauth/tokens and the stores of
// users' tokens: [Store], its parameters and its results.
//
// Most programs only choose a store: [MemoryStore] for one process, or package oauth/sqlstore
// for a database. [Sealed] encrypts the tokens in any store. To store tokens elsewhere,
// implement [Store] and test it with package oauth/storetest.
package tokenstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/ids"
)

// Lease is the right to replace one version of one record. Version is the version that its
// owner has seen. Owner is a text that no other caller uses.
type Lease struct {
	Key     Key
	Version int64
	Owner   string
}

// Store stores the tokens of all users, for all replicas of a program. Each step of a refresh
// is atomic and never waits for another replica: a replica takes a short lease on the record,
// calls the platform without any lock, and writes the result if the record has not changed.
//
//	load ─► lease(version, owner, ttl) ─► POST /oauth/token ─► commit(version+owner)
//	                                                        ├► fail: only the user can help
//	                                                        └► release: try again later
//
// # Versions
//
// Save, SaveVersion, Commit and Fail give the record a new version. It is greater than the
// current version and than every version that the key had before the call, even across
// DeleteVersion. Lease and Release do not change the version.
//
// A store that keeps no trace of deleted rows can start with the time in microseconds. One
// exception is then allowed: if two calls of Save run at the same time with a DeleteVersion
// between them, the later call may get the lower version.
//
// # Leases
//
// A record has at most one lease, with an owner and an expiry. An expired lease does not block
// other owners. Its owner may still Commit or Fail if no other owner has taken a lease and no
// write has happened since. Expiry is measured by the store's own clock.
//
// # Errors
//
// [ErrNoRecord], [ErrConflict] and [ErrLeased] mean that nothing was changed. Each method
// lists those that it returns. Any other error is a failure of the store, and the record may
// or may not have been written. No error text contains a token.
//
// # Content
//
// A store returns every field of an [oauth.Token] as it was written, with times to the
// microsecond in any location. Secrets are opaque texts of up to 64 KiB. An implementation, or
// another Store around it, may encrypt them with the key as associated data. Users are
// compared byte by byte.
//
// Methods are safe for concurrent use and return when ctx ends. After a method has returned,
// it holds no lock, transaction or connection.
//
// # Time
//
// A method may be slow for a moment. Callers in package oauth/tokens wait until their own
// contexts end. A call of the store is canceled after 1 minute. The first attempt to write a
// refreshed token is canceled earlier, after a third of the lease, and is then repeated until
// it succeeds.
type Store interface {
	// Load returns the record of key, or [ErrNoRecord].
	Load(ctx context.Context, key Key) (Record, error)

	// Save stores a first or renewed authorization. It inserts or replaces the record, sets
	// [StateActive], clears the reason and removes any lease. It ignores the version, because a
	// new authorization is newer than any stored token. If [Key.ValidateToken] rejects the
	// token, Save returns that error.
	Save(ctx context.Context, key Key, token oauth.Token) (Record, error)

	// SaveVersion is Save on the condition that the record has this version. Version 0 requires
	// that there is no record. A lease on the record does not prevent the write.
	//
	// Errors: [ErrConflict] if the record has another version or does not exist; the error of
	// [Key.ValidateToken].
	SaveVersion(ctx context.Context, key Key, version int64, token oauth.Token) (Record, error)

	// DeleteVersion deletes the record and its lease if the record has this version. It returns
	// nil if there is no record. It does not revoke the token: see [oauth.Client.Revoke].
	//
	// Errors: [ErrConflict] if the record has another version.
	DeleteVersion(ctx context.Context, key Key, version int64) error

	// Lease takes the lease on the record for ttl and returns the current record, in any state.
	// If the owner already has the lease, Lease sets its expiry again.
	//
	// Errors:
	//
	//   - [ErrNoRecord]: there is no record
	//   - [ErrConflict]: the record has another version
	//   - [ErrLeased]: another owner has an unexpired lease
	Lease(ctx context.Context, lease Lease, ttl time.Duration) (Record, error)

	// Commit replaces the token with the result of a refresh, sets [StateActive], clears the
	// reason and removes the lease. The write must be durable before Commit returns, because
	// the caller uses the new token from then on.
	//
	// Errors:
	//
	//   - [ErrNoRecord]: there is no record
	//   - [ErrConflict]: the record has another version, another owner took the last lease,
	//     or the lease was released
	//   - the error of [Key.ValidateToken]
	Commit(ctx context.Context, lease Lease, token oauth.Token) (Record, error)

	// Fail is Commit for a user who must authorize again: it replaces the token, sets
	// [StateReauthorize] with reason and removes the lease, all in one write. It returns the
	// errors of Commit.
	Fail(ctx context.Context, lease Lease, token oauth.Token, reason Reason) (Record, error)

	// Release removes the lease without a result, so that other owners need not wait for its
	// expiry. If the owner no longer has the lease, Release changes nothing and returns nil.
	Release(ctx context.Context, lease Lease) error

	// CheckWrite reports whether the store accepts writes. It commits a real write as Save
	// does, with the same connections and locks, but changes no record, version or lease. It
	// fails if a write fails, such as on a read-only server or a full disk. Each call costs a
	// write, so call it at most every few seconds. Calls of several processes do not wait for
	// each other, so they write no common row.
	CheckWrite(ctx context.Context) error

	// List returns the records that listing selects, ordered by the bytes of their user. It
	// returns no records after the last one. AccessToken, RefreshToken and Replaced are empty,
	// so a list needs no secrets and includes records that cannot be decrypted. All other
	// fields are as Load returns them.
	//
	// A record may be missed if it is written between two pages. No record is returned twice.
	List(ctx context.Context, listing Listing) ([]Record, error)

	// ListClinics returns up to limit IDs of clinics that have records in environment, in any
	// state. Each ID occurs once, and is greater than after. IDs are ordered by their bytes.
	// Records without a clinic are ignored.
	ListClinics(ctx context.Context, environment api.Environment, after string, limit int) ([]string, error)

	// ClaimDue takes the lease on up to due.Limit records for due.Owner and due.TTL, and
	// returns the records, the earliest due first. It claims a record only if
	//
	//   - the record is in due.Environment and in [StateActive],
	//   - its [DueAt] is not zero, not before due.From, and before due.Before,
	//   - its Token.UsedAt is not before due.UsedSince, if that is set,
	//   - no owner has an unexpired lease on it.
	//
	// The leases are those of [Store.Lease]: the versions stay, and no two callers claim the
	// same record at the same time. If no record is due, ClaimDue returns no record and no
	// error.
	//
	// ClaimDue does not return an unreadable record, but postpones it to due.Retry. If no other
	// record is due, it fails with an error that matches [ErrUnreadable]. Then call it again.
	ClaimDue(ctx context.Context, due Due) ([]Record, error)

	// Postpone removes the lease, as [Store.Release] does. ClaimDue then ignores the record
	// until the given time, by the caller's clock, or until the next write of a token. Postpone
	// changes neither token nor version. If the owner no longer has the lease, it changes
	// nothing and returns nil.
	Postpone(ctx context.Context, lease Lease, until time.Time) error

	// ClaimFlow claims a flow for claim.Owner and returns "". If the flow has ended, it returns
	// the result instead. The first owner gets the claim, and still has it if it repeats the
	// call.
	//
	// A claim lasts for ttl by the store's clock. After that no other owner can claim the flow,
	// because the first owner may have used the code. The store keeps the flow for at least
	// another 24 hours. The platform accepts a code for 10 minutes.
	//
	// Errors: [ErrLeased] while the claim of another owner lasts; [ErrNoResult] if that claim
	// has expired without a result.
	ClaimFlow(ctx context.Context, claim FlowClaim, ttl time.Duration) (result string, err error)

	// EndFlow stores the result of a flow, an ASCII text of up to 64 bytes, even if the claim
	// has expired. If result is empty, EndFlow deletes the claim, so that another owner can
	// claim the flow. If another owner has the claim, or the flow already has a result, EndFlow
	// changes nothing.
	EndFlow(ctx context.Context, claim FlowClaim, result string) error
}

// FlowClaim is a claim of one owner on an authorization flow.
type FlowClaim struct {
	// Environment is the region and stage to which the flow belongs.
	Environment api.Environment

	// Flow identifies the flow in its environment: 1 to 255 bytes of printable ASCII.
	Flow string

	// Owner is a text of 1 to 255 bytes that no other caller uses.
	Owner string
}

// Validate returns an [*api.ArgumentError] if a store cannot store the claim.
func (c FlowClaim) Validate() error {
	if err := c.Environment.Validate(); err != nil {
		return err
	}
	for field, id := range map[string]string{"Flow": c.Flow, "Owner": c.Owner} {
		if id == "" {
			return &api.ArgumentError{Field: "tokenstore.FlowClaim." + field, Reason: "is empty"}
		}
		for _, b := range []byte(id) {
			if b <= ' ' || b > '~' {
				return &api.ArgumentError{Field: "tokenstore.FlowClaim." + field, Reason: "must be printable ASCII without spaces"}
			}
		}
		if err := ids.Validate("tokenstore.FlowClaim."+field, id); err != nil {
			return err
		}
	}
	return nil
}

// Listing selects a page of [Store.List].
type Listing struct {
	// Environment is the environment of the records.
	Environment api.Environment

	// State limits the list to records in this state. Empty lists all states.
	State State

	// ClinicID limits the list to records whose Token.Clinic has this ID. Empty lists all
	// clinics.
	ClinicID string

	// After is the user before the page: the user of the last record of the previous page.
	// Empty returns the first page.
	After string

	// Limit is the maximum number of records, 1 or more.
	Limit int
}

// Due selects the records of [Store.ClaimDue]. Its times are by the caller's clock. Leases
// expire by the store's clock.
type Due struct {
	// Environment is the environment of the records.
	Environment api.Environment

	// From and Before limit [DueAt]: it must not be before From, if From is set, and must be
	// before Before. In a large application most tokens expired long ago. From lets a store
	// skip them in its index of due times.
	From, Before time.Time

	// UsedSince is the earliest Token.UsedAt of a record. Zero also claims the tokens of users
	// without calls.
	UsedSince time.Time

	// Limit is the maximum number of records, 1 or more.
	Limit int

	// Owner and TTL are the owner and duration of each lease. See [Lease] and [Store.Lease].
	Owner string
	TTL   time.Duration

	// Retry is the time to which an unreadable record is postponed. If it is zero, the record
	// stays leased instead.
	Retry time.Time
}

// A token becomes due between these shares of its lifetime before its expiry. A token of two
// hours is due after 78 to 102 minutes. The API does not recommend a time.
const (
	firstDue = 0.35
	lastDue  = 0.15
)

// DueAt returns the time from which KeepFresh of package oauth/tokens refreshes a token: after
// 65 to 85 percent of its lifetime. The exact time depends only on the token and differs
// between tokens, so that tokens issued together are not all due together. DueAt returns zero,
// which means never, if the token has no known expiry or no refresh token.
//
// A [Store] computes it at each write of a token and stores it with the token. Encrypted
// secrets work as well as plaintext secrets.
func DueAt(t oauth.Token) time.Time {
	if t.ExpiresAt.IsZero() || t.RefreshToken.IsZero() {
		return time.Time{}
	}
	life := t.Lifetime
	if life <= 0 {
		life = defaults.TokenLifetime
	}
	// Two bytes of a hash are enough to spread the tokens, and reveal nothing about them.
	sum := sha256.Sum256([]byte(t.AccessToken.Reveal()))
	share := float64(binary.BigEndian.Uint16(sum[:])) / (1 << 16)
	lead := time.Duration(float64(life) * (lastDue + share*(firstDue-lastDue)))
	return t.ExpiresAt.Add(-lead)
}

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
