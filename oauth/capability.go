package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Lister is what a [Store] may implement beyond its duty: it can tell who is
// connected. [MemoryStore] does. A Store around another one that cannot returns
// [errors.ErrUnsupported], of this and of [Claimer].
type Lister interface {
	// List returns the records that listing asks for, ordered by the bytes of
	// their user, or none after the last. Their AccessToken and RefreshToken
	// are empty: a list needs no secrets, and a record that cannot be unsealed
	// is listed too. Everything else is as Load returns it.
	//
	// Records that are written while pages are read may be missed or not; none
	// is returned twice.
	List(ctx context.Context, listing Listing) ([]Record, error)
}

// Listing is a page of a [Lister].
type Listing struct {
	// Environment is the one whose users are listed.
	Environment api.Environment

	// State limits the list to records in it; empty lists all.
	State State

	// After is the user after whom the page begins: that of the last record of
	// the page before, or empty for the first page.
	After string

	// Limit is the number of records at most, 1 or more.
	Limit int
}

// Claimer is what a [Store] may implement beyond its duty: it hands out the
// records whose tokens are due, to one replica each. A [Refresher] needs it.
// [MemoryStore] does it.
type Claimer interface {
	// ClaimDue takes, for due.Owner and due.TTL, the lease on up to due.Limit
	// records and returns them as they are then, the earliest due first. It
	// takes those
	//
	//   - of due.Environment, in [StateActive],
	//   - whose [Token.RefreshDue] is not zero and before due.Before,
	//   - whose Token.UsedAt is not before due.UsedSince, if that is set,
	//   - on which nobody holds a lease that has not run out.
	//
	// The leases are those of [Store.Lease]: versions stay, and no record is
	// handed to two callers at a time. None that is due is no error.
	ClaimDue(ctx context.Context, due Due) ([]Record, error)
}

// Due says what a [Claimer] hands out. Its times are by the caller's clock, the
// leases' by the store's.
type Due struct {
	// Environment is the one whose tokens are claimed.
	Environment api.Environment

	// Before is the time that [Token.RefreshDue] has to be before.
	Before time.Time

	// UsedSince is the time that Token.UsedAt must not be before. Zero claims
	// the tokens of users whom nobody uses, too.
	UsedSince time.Time

	// Limit is the number of records at most, 1 or more.
	Limit int

	// Owner and TTL are those of the leases; see [Lease] and [Store.Lease].
	Owner string
	TTL   time.Duration
}

// Refreshing in the background begins between these shares of a token's life
// before its end: two hours are due after 78 to 102 minutes. The API says
// nothing about it.
const (
	firstDue = 0.35
	lastDue  = 0.15
)

// RefreshDue returns from when on a [Refresher] replaces the token: after 65 to
// 85 per cent of its life, at a point that follows from the token and differs
// from token to token, so that tokens that were made at one time are not all due
// at one time. It is zero for a token whose end is not known and for one
// without a refresh token: those are never due.
//
// A [Store] that is a [Claimer] works it out when it writes a token and keeps it
// beside it. Sealed secrets serve as well as bare ones.
func (t Token) RefreshDue() time.Time {
	if t.ExpiresAt.IsZero() || t.RefreshToken == "" {
		return time.Time{}
	}
	life := t.Lifetime
	if life <= 0 {
		life = DefaultLifetime
	}
	// Two bytes of a hash spread well enough, and tell nothing of the token.
	sum := sha256.Sum256([]byte(t.AccessToken))
	share := float64(binary.BigEndian.Uint16(sum[:])) / (1 << 16)
	lead := time.Duration(float64(life) * (lastDue + share*(firstDue-lastDue)))
	return t.ExpiresAt.Add(-lead)
}
