package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Times of [Connections]. They are choices of this library; the API states none.
const (
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
	// may try, at least a second; 0 means 30 seconds. The token endpoint
	// gets a third of it for an answer. A replica that dies during a refresh
	// keeps its user waiting for this long at most.
	LeaseTTL time.Duration
}

// Authorization is what a user has granted: Verify of [Config] receives it before the token is
// stored, and [Observer].Connected afterwards.
type Authorization struct {
	// Key names the user to be connected.
	Key tokenstore.Key

	// Owner is whom the new token acts for.
	Owner oauth.ResourceOwner

	// Previous is the owner of the token that is stored until now, zero if
	// there is none: where that cannot be found out no user is connected.
	// Another owner means that the user signed in to another
	// account of the platform, which may have other patients.
	Previous oauth.ResourceOwner

	// Scopes are the granted scopes.
	Scopes []string

	// Clinic is the clinic of the account. It is zero if [Config].Clinic is nil, returned
	// zero or failed.
	Clinic oauth.Clinic
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
	c.LeaseTTL = cmp.Or(c.LeaseTTL, defaults.LeaseTTL)
	return c
}

// Connections are the users of one application in one environment: a client bound
// to the store that holds their tokens. Make one when the program starts and share
// it: that a user's token is refreshed once at a time in a process depends on it.
// It is safe for concurrent use.
type Connections struct {
	config  Config
	client  *oauth.Client
	store   tokenstore.Store
	hooks   hooks
	calls   callGroup
	cache   tokenCache
	circuit circuit
}

// NewConnections checks config and returns the connections. It sends and reads
// nothing. Errors are [*api.ArgumentError] and name the field.
func NewConnections(config Config) (*Connections, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	c := &Connections{
		config: config, client: config.Client, store: config.Store,
		hooks:   hooks{observers: config.Observers, logger: config.Client.Logger()},
		circuit: newCircuit(),
	}
	c.cache.limit = cachedUsers
	return c, nil
}

// forget drops the token of a user in memory after it was replaced, revoked or marked:
// the next call of every source reads the store.
func (c *Connections) forget(key tokenstore.Key) { c.cache.remove(key.User, c.calls.outdate(key)) }

// Client returns the client of the application.
func (c *Connections) Client() *oauth.Client { return c.client }

// Environment returns the environment the users belong to.
func (c *Connections) Environment() api.Environment { return c.client.Environment() }

// Key returns the key under which the [tokenstore.Store] holds the token of user.
func (c *Connections) Key(user string) tokenstore.Key {
	return tokenstore.Key{Environment: c.Environment(), User: user}
}

// String names the environment.
func (c *Connections) String() string { return "tokens.Connections{" + c.Environment().String() + "}" }

// Format prints [Connections.String] for every verb.
func (c *Connections) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Record returns what the store holds of user. It asks nothing else and changes
// nothing; [Connections.Usable] says what the record means.
//
// Errors: [tokenstore.ErrNoRecord]; [*StoreError].
func (c *Connections) Record(ctx context.Context, user string) (tokenstore.Record, error) {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return tokenstore.Record{}, err
	}
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	record, err := c.store.Load(ctx, key)
	if errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, err
	}
	return record, storeError("Load", key, err)
}

// Usable reports why the token of a record must not be used, as far as the record
// shows: a [*ReauthorizeError] for a user who has to authorize again, and
// [api.ErrWrongEnvironment]. It asks neither store nor platform and changes nothing.
func (c *Connections) Usable(record tokenstore.Record) error {
	if err := c.validate(record); err != nil {
		return err
	}
	if c.client.ScopesAddedSince(record.Token) {
		return c.reauthorize(record.Key, tokenstore.ReasonScopesExtended, record.Token.ResourceOwner, nil)
	}
	return nil
}

// PendingCommits counts the refreshed token pairs that the store does not take and
// that live in this process only. It is 0 in a healthy program: let a health
// check look at it, and do not end the process while it is not.
func (c *Connections) PendingCommits() int { return len(c.calls.all()[commitCall]) }

// Close waits until no refresh is under way, every new token pair is stored, and every
// token that was not stored is revoked. Call it before the program ends, after the last
// call. If ctx ends first, it returns an error that matches ctx's and counts the open work.
func (c *Connections) Close(ctx context.Context) error {
	for {
		open := c.calls.all()
		var next *call
		for _, calls := range open {
			next = calls[0]
		}
		if next == nil {
			return nil
		}
		select {
		case <-next.done:
		case <-ctx.Done():
			return fmt.Errorf("tokens: closed with %d token refreshes open, %d token pairs not stored and %d tokens not revoked: %w",
				len(open[loadCall])+len(open[refreshCall]), len(open[commitCall]), len(open[disposeCall]), ctx.Err())
		}
	}
}

// Paused returns until when refreshing in the background pauses in this process, and true if
// it does: because the platform refuses one user after another ([MassRejection]) or the
// application ([ConfigErrorDetected]). It is made for a health check.
func (c *Connections) Paused() (until time.Time, paused bool) {
	until = c.circuit.pausedUntil()
	return until, time.Now().Before(until)
}
