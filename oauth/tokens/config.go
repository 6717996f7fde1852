package tokens

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Times of [Connections]. They are choices of this library; the API states none.
const (
	// DefaultLeaseTTL leaves the token endpoint ten seconds to answer, twice.
	DefaultLeaseTTL = 30 * time.Second

	// Leeway is how long before its end a token that is in use is replaced in the background,
	// and never more than a quarter of its lifetime. It lets the platform be unwell for some
	// minutes.
	Leeway = 5 * time.Minute

	// cachedUsers is the number of users whose tokens stay in memory, about 45 MB. The least
	// recently used are dropped first, and their next call reads the store.
	cachedUsers = 100_000
)

// Config sets up [Connections]. Client and Store are required.
type Config struct {
	// Client speaks for the application whose users these are.
	Client *oauth.Client

	// Store keeps their tokens. Several Connections, of other environments or
	// in other processes, may share one.
	Store tokenstore.Store

	// Verify reports whether the user may connect the account: nil accepts it, and an error
	// rejects it. The token is then revoked and not stored. A nil Verify accepts every
	// account that the user can sign in to, including one of another clinic, whose
	// patients then appear as those of your user. So most programs need Verify:
	//
	//	Verify: func(_ context.Context, grant tokens.Authorization) error {
	//		switch want := clinicOf(grant.Key.User); { // the clinic's id, from your own database
	//		case grant.Clinic.ID == "":
	//			return tokens.ErrUndecided // the platform could not be asked
	//		case grant.Clinic.ID != want:
	//			return errors.New("the account belongs to another clinic")
	//		}
	//		return nil
	//	}
	//
	// Compare [Authorization].Previous if a user must not change accounts unnoticed. Return
	// [ErrUndecided] if the user should try again.
	Verify func(ctx context.Context, grant Authorization) error

	// Clinic asks the platform which clinic the user of a token belongs to; nil asks
	// nothing, and no clinic is kept. It is called once for a user: when the user
	// connects, and after a refresh as long as the clinic is not known. Its failure
	// keeps no user from being connected. See [oauth.Token].Clinic.
	Clinic func(ctx context.Context, key tokenstore.Key, token api.AccessToken) (oauth.Clinic, error)

	// Observers observe refreshes and what happens to users and to the
	// application.
	Observers []Observer

	// LeaseTTL is how long one replica may take for a refresh before another
	// may try, at least a second; 0 means [DefaultLeaseTTL]. The token endpoint
	// gets a third of it for an answer. A replica that dies during a refresh
	// keeps its user waiting for this long at most.
	LeaseTTL time.Duration
}

// minLeaseTTL keeps the time for one answer above what a network needs.
const minLeaseTTL = time.Second

// validate reports the first unusable field by its name.
func (c *Config) validate() error {
	for _, f := range []struct {
		name   string
		wrong  bool
		reason string
	}{
		{"Client", c.Client == nil, "is nil"},
		{"Store", c.Store == nil, "is nil"},
		{"LeaseTTL", c.LeaseTTL != 0 && c.LeaseTTL < minLeaseTTL, "must be at least a second"},
	} {
		if f.wrong {
			return &api.ArgumentError{Field: "tokens.Config." + f.name, Reason: f.reason}
		}
	}
	return nil
}

// withDefaults returns a copy that shares nothing with the caller's.
func (c Config) withDefaults() Config {
	c.Observers = slices.Clone(c.Observers)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, DefaultLeaseTTL)
	return c
}

// answerTime is what one call of the platform may take.
func (c *Config) answerTime() time.Duration { return c.LeaseTTL / 3 }
