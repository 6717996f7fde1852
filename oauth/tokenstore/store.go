// Package tokenstore is the contract between package oauth/tokens and the stores that keep the
// tokens of users: [Store], and all that its methods take and return. Applications choose a
// store and name little of this package. Implement [Store] to keep tokens elsewhere, and test
// it with package oauth/storetest.
//
// [MemoryStore] serves one process, package oauth/sqlstore databases. [Sealed] encrypts the
// tokens in any store.
package tokenstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/ids"
)

// Lease is the right to replace one version of one record. The version is what
// the holder has seen; the owner is a text that no one else uses.
type Lease struct {
	Key     Key
	Version int64
	Owner   string
}

// Store keeps the tokens of all users, for all replicas of a program. It does
// three small things atomically and never waits: to refresh a token a
// replica takes a short lease on its record, calls the platform while nothing is
// locked, and writes the result if the record has not moved.
//
//	load ─► lease(version, owner, ttl) ─► POST /oauth/token ─► commit(version+owner)
//	                                                        ├► fail: only the user can help
//	                                                        └► release: try again later
//
// # Versions
//
// Save, SaveVersion, Commit and Fail give the record a new version, greater than the one that
// it has, and than every version its key had before the call, also across DeleteVersion. (A
// store that forgets deleted rows can begin with the time in microseconds: of two calls
// of Save at one time, with a DeleteVersion between them, the later one can have the lower
// version.) Lease and Release do not change it.
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
// Every field of an [oauth.Token] comes back as it was written, times to the
// microsecond in any location. Secrets are opaque texts of up to 64 KiB: an
// implementation, or another Store around it, may seal them with the key as
// associated data. Users are compared byte by byte.
//
// Methods are safe for concurrent use, return when ctx ends, and hold no lock,
// transaction or connection after they return.
//
// # Time
//
// A method may be slow for a moment: how long to wait is up to the callers of
// package oauth/tokens, who leave when their contexts end. Only a call that does not
// come back is given up, after a minute; writing a new pair, which is repeated until
// it succeeds, is tried anew sooner.
type Store interface {
	// Load returns the record of key, or [ErrNoRecord].
	Load(ctx context.Context, key Key) (Record, error)

	// Save stores a first or renewed authorization: it inserts or replaces the
	// record, makes it [StateActive], clears its reason and ends any lease. It
	// does not look at the version: what the user just authorized is newer
	// than anything else. A token that fails [Key.ValidateToken] is refused with
	// that error.
	Save(ctx context.Context, key Key, token oauth.Token) (Record, error)

	// SaveVersion is Save, provided that the record has this version; 0 means that there must
	// be no record. A lease on the record does not prevent it.
	//
	// Errors: [ErrConflict] if the record has another version, or there is none; that of
	// [Key.ValidateToken].
	SaveVersion(ctx context.Context, key Key, version int64, token oauth.Token) (Record, error)

	// DeleteVersion deletes the record and its lease if the record has this version. It
	// returns nil if there is no record. It does not revoke the token, see
	// [oauth.Client.Revoke].
	//
	// Errors: [ErrConflict] if the record has another version.
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
	// [Key.ValidateToken].
	Commit(ctx context.Context, lease Lease, token oauth.Token) (Record, error)

	// Fail makes the record [StateReauthorize] with reason and ends the lease.
	// The token stays. Errors are those of Commit.
	Fail(ctx context.Context, lease Lease, reason Reason) (Record, error)

	// Release ends the lease without a result, so that others need not wait
	// for its end. A lease that is not this owner's any more is left alone,
	// which is no error.
	Release(ctx context.Context, lease Lease) error

	// CheckWrite reports whether the store accepts writes. It commits a real write in
	// the way that Save does, over the same connections and locks, but changes no
	// record, no version and no lease. It fails if a write fails, such as on a
	// read-only server or a full disk. Each call costs a write, so call it every few
	// seconds at most.
	CheckWrite(ctx context.Context) error

	// List returns the records that listing selects, ordered by the bytes of their user, or
	// none after the last. Their AccessToken, RefreshToken and Replaced are empty: a list
	// needs no secrets, and includes a record that cannot be unsealed. Everything else is as
	// Load returns it.
	//
	// Records that are written while pages are read may be missed. No record is returned
	// twice.
	List(ctx context.Context, listing Listing) ([]Record, error)

	// ListClinics returns the ids of the clinics that records of environment belong to, in
	// any state: each once, ordered by its bytes, after the id after, and at most limit of
	// them. It skips records without a clinic.
	ListClinics(ctx context.Context, environment api.Environment, after string, limit int) ([]string, error)

	// ClaimDue takes, for due.Owner and due.TTL, the lease on up to due.Limit
	// records and returns them as they are then, the earliest due first. It
	// takes those
	//
	//   - of due.Environment, in [StateActive],
	//   - whose [DueAt] is not zero, not before due.From, and before due.Before,
	//   - whose Token.UsedAt is not before due.UsedSince, if that is set,
	//   - on which no owner holds a lease that has not run out.
	//
	// The leases are those of [Store.Lease]: versions stay, and no record is
	// handed to two callers at a time. None that is due is no error.
	//
	// ClaimDue does not return a record that it cannot read, but postpones it to
	// due.Retry. If no other record is due, it fails with an error that matches
	// [ErrUnreadable]: call it again.
	ClaimDue(ctx context.Context, due Due) ([]Record, error)

	// Postpone ends the lease, as [Store.Release] does, and makes ClaimDue ignore the record
	// until the given time, by the caller's clock, or until a token is written. It changes
	// neither token nor version. If the lease is no longer this owner's, it changes
	// nothing and returns nil.
	Postpone(ctx context.Context, lease Lease, until time.Time) error

	// ClaimFlow claims a flow for claim.Owner and returns "", or returns the result of a
	// flow that has ended. The first owner gets the claim. It still has the claim if it
	// repeats the call.
	//
	// A claim lasts for ttl by the store's clock. The flow is not free afterwards,
	// because the owner may have used the code. The store keeps the flow for 24 hours more
	// or longer. The platform accepts a code for 10 minutes.
	//
	// Errors: [ErrLeased] while the claim of another owner lasts; [ErrNoResult] if that
	// claim has expired without a result.
	ClaimFlow(ctx context.Context, claim FlowClaim, ttl time.Duration) (result string, err error)

	// EndFlow stores the result of a flow, a text of up to 64 bytes of ASCII, even if the
	// claim has expired. If result is empty, EndFlow deletes the claim, so that another
	// owner can claim the flow. It changes nothing if another owner has the claim or the
	// flow has a result.
	EndFlow(ctx context.Context, claim FlowClaim, result string) error
}

// FlowClaim claims an authorization flow for one owner.
type FlowClaim struct {
	// Environment is the environment of the flow.
	Environment api.Environment

	// Flow identifies the flow in its environment: 1 to 255 bytes of printable ASCII.
	Flow string

	// Owner is a text of 1 to 255 bytes that no other caller uses.
	Owner string
}

// Validate returns an [*api.ArgumentError] if a store cannot keep the claim.
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

// Listing is a page of [Store.List].
type Listing struct {
	// Environment is the one whose users are listed.
	Environment api.Environment

	// State limits the list to records in it; empty lists all.
	State State

	// ClinicID limits the list to records whose Token.Clinic has this id; empty
	// lists all.
	ClinicID string

	// After is the user after whom the page begins: that of the last record of
	// the page before, or empty for the first page.
	After string

	// Limit is the number of records at most, 1 or more.
	Limit int
}

// Due selects the records that [Store.ClaimDue] returns. Its times are by the caller's clock,
// the leases' by the store's.
type Due struct {
	// Environment is the one whose tokens are claimed.
	Environment api.Environment

	// From is the time that [DueAt] must not be before, if it is set, and Before the one
	// that it has to be before. Most tokens of a large application have ended long ago: an
	// index of DueAt need not be read through them.
	From, Before time.Time

	// UsedSince is the time that Token.UsedAt must not be before. Zero claims
	// the tokens of users without calls, too.
	UsedSince time.Time

	// Limit is the number of records at most, 1 or more.
	Limit int

	// Owner and TTL are those of the leases; see [Lease] and [Store.Lease].
	Owner string
	TTL   time.Duration

	// Retry is the time to which a record that cannot be read is postponed. Zero leaves
	// the record leased instead.
	Retry time.Time
}

// Refreshing in the background begins between these shares of a token's life
// before its end: two hours are due after 78 to 102 minutes. The API says
// nothing about it.
const (
	firstDue = 0.35
	lastDue  = 0.15
)

// DueAt returns from when on KeepFresh of package oauth/tokens replaces a token: after 65 to
// 85 per cent of its life, at a point that follows from the token and differs
// from token to token, so that tokens that were made at one time are not all due
// at one time. It is zero for a token whose end is not known and for one
// without a refresh token: those are never due.
//
// A [Store] computes it when it writes a token and keeps it beside the token. Encrypted
// secrets serve as well as bare ones.
func DueAt(t oauth.Token) time.Time {
	if t.ExpiresAt.IsZero() || t.RefreshToken.IsZero() {
		return time.Time{}
	}
	life := t.Lifetime
	if life <= 0 {
		life = defaults.TokenLifetime
	}
	// Two bytes of a hash spread well enough, and reveal nothing about the token.
	sum := sha256.Sum256([]byte(t.AccessToken.Reveal()))
	share := float64(binary.BigEndian.Uint16(sum[:])) / (1 << 16)
	lead := time.Duration(float64(life) * (lastDue + share*(firstDue-lastDue)))
	return t.ExpiresAt.Add(-lead)
}
