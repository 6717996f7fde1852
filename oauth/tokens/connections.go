package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/ids"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Limits of [Connections]. They are choices of this library. The API states none.
const (
	// cachedUsers is the number of users with tokens in memory, about 40 MB. Each further user
	// replaces any other, whose next call reads the store.
	cachedUsers = 100_000

	// closeGrace is the time for stopped work to end.
	closeGrace = time.Second
)

// Config configures [Connections]. Client and Store are required.
type Config struct {
	// Client is the OAuth client of your application.
	Client *oauth.Client

	// Store stores the tokens of the users. Several Connections, in other processes or for other
	// environments, can share one.
	Store tokenstore.Store

	// Verify reports whether the user may connect the account: nil accepts the account, and an
	// error rejects it. The token is then revoked and not stored. A nil Verify accepts every
	// account that the user can sign in to, including an account of another clinic, whose
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

	// Clinic asks the platform for the clinic of the user of a token. If it is nil, no clinic is
	// stored. It is called when the user connects, and after each refresh until the clinic is
	// known. Its failure does not prevent the connection. See [oauth.Token].Clinic. It is also
	// called to find out whether the API accepts a user's token, if it rejects the token of
	// another user.
	Clinic func(ctx context.Context, key tokenstore.Key, token api.AccessToken) (oauth.Clinic, error)

	// Observers observe refreshes and the changes of users and of the application.
	Observers []Observer

	// LeaseTTL is the time that one replica has for a refresh before another replica may try. It
	// is at least 1 second, and 0 means 30 seconds. The token endpoint has a third of it to
	// respond. If a replica crashes during a refresh, its user waits for at most this long.
	LeaseTTL time.Duration
}

// Authorization describes a user's grant. Verify of [Config] receives it before the token is
// stored, and [Observer].Connected afterwards.
type Authorization struct {
	// Key names the user.
	Key tokenstore.Key

	// Owner is the account of the new token.
	Owner oauth.ResourceOwner

	// Previous is the owner of the stored token, or zero if no token is stored. If it cannot be
	// read, no user is connected. A different owner means that the user signed in to another
	// account of the platform, which may have other patients.
	Previous oauth.ResourceOwner

	// Scopes are the granted scopes.
	Scopes []string

	// Clinic is the clinic of the account. It is zero if [Config].Clinic is nil, returned zero
	// or failed.
	Clinic oauth.Clinic
}

// minLeaseTTL leaves enough time for one response over a network.
const minLeaseTTL = time.Second

// validate names the first invalid field.
func (c *Config) validate() error {
	for _, f := range []struct {
		name   string
		wrong  bool
		reason string
	}{
		{"Client", c.Client == nil, "is nil"},
		{"Store", c.Store == nil, "is nil"},
		{"LeaseTTL", c.LeaseTTL != 0 && c.LeaseTTL < minLeaseTTL, "must be at least 1 second"},
	} {
		if f.wrong {
			return &api.ArgumentError{Field: "tokens.Config." + f.name, Reason: f.reason}
		}
	}
	return nil
}

// withDefaults returns a copy that shares no memory with the caller's config.
func (c Config) withDefaults() Config {
	c.Observers = slices.Clone(c.Observers)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, defaults.LeaseTTL)
	return c
}

// Connections manages the users of one application in one environment: an OAuth client
// together with the store of their tokens. Create one when the program starts and share it,
// because a process refreshes a user's token once at a time only within one Connections. It is
// safe for concurrent use.
type Connections struct {
	records
	users  users
	brakes brakes
}

// NewConnections validates config and returns the connections. It sends no request and does
// not read the store. Errors are [*api.ArgumentError] and name the field.
func NewConnections(config Config) (*Connections, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	c := &Connections{
		records: records{
			config: config, client: config.Client, store: config.Store,
			hooks: hooks{observers: config.Observers, logger: config.Client.Logger()},
		},
		users:  users{limit: cachedUsers},
		brakes: brakes{all: map[brakeKey]*brake{}},
	}
	return c, nil
}

// Client returns the client of the application.
func (c *Connections) Client() *oauth.Client { return c.client }

// Environment returns the environment of the users.
func (c *Connections) Environment() api.Environment { return c.client.Environment() }

// Key returns the key of user's record in the [tokenstore.Store].
func (c *Connections) Key(user string) tokenstore.Key {
	return tokenstore.Key{Environment: c.Environment(), User: user}
}

// String names the environment.
func (c *Connections) String() string { return "tokens.Connections{" + c.Environment().String() + "}" }

// Format prints [Connections.String] for every verb.
func (c *Connections) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Record returns the stored record of user. It sends no request and changes nothing. To
// interpret the record, call [Connections.Usable].
//
// Errors: [tokenstore.ErrNoRecord] if the user is not connected, and [*StoreError].
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

// Usable returns an error if the token of a record must not be used, as far as the record
// shows: a [*ReauthorizeError] if the user must authorize again, or [api.ErrWrongEnvironment].
// It does not call the store or the platform and changes nothing.
func (c *Connections) Usable(record tokenstore.Record) error {
	if err := c.validate(record); err != nil {
		return err
	}
	if c.client.ScopesAddedSince(record.Token) {
		return c.reauthorize(record.Key, tokenstore.ReasonScopesExtended, record.Token.ResourceOwner, nil)
	}
	return nil
}

// PendingCommits counts the refreshed token pairs that the store has not accepted and that
// only this process has. It is 0 in a healthy program. Include it in a health check, and do
// not end the process while it is not 0.
func (c *Connections) PendingCommits() (n int) {
	for _, pending := range c.users.all()[commitCall] {
		if pending.pair.failure.Load() != nil {
			n++
		}
	}
	return n
}

// Close waits until no refresh is running, every new token pair is stored, and every token
// that was not stored is revoked. Call it before the program ends, after the last call. If ctx
// ends first, Close stops the open work and returns an error that matches the error of ctx and
// counts this work. Users whose pair was not stored may have to authorize again. Calls that need
// the store or the platform fail from then on.
func (c *Connections) Close(ctx context.Context) error {
	err := c.drain(ctx)
	if err != nil {
		c.users.stop()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		_ = c.drain(grace)
	}
	return err
}

// drain waits until no work is open.
func (c *Connections) drain(ctx context.Context) error {
	for {
		open := c.users.all()
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
			return fmt.Errorf("tokens: closed with %d token refreshes running, %d token pairs not stored and %d tokens not revoked: %w",
				len(open[loadCall])+len(open[refreshCall]), len(open[commitCall]), len(open[disposeCall]), ctx.Err())
		}
	}
}

// Paused reports whether refreshes in the background are paused in this process, and until
// when. They pause after [MassRejection], if the platform rejects one user after another, and
// after [ConfigErrorDetected], if it rejects the application. Use it in a health check.
func (c *Connections) Paused() (until time.Time, paused bool) {
	until = c.brakes.pausedUntil()
	return until, time.Now().Before(until)
}

// SetClinic stores the current clinic of a user. Use it if GET /clinic shows that the user has
// moved. account is the account that called GET /clinic. The token does not change. A user who
// must authorize again keeps the old clinic, and connecting finds the new one.
//
// Errors:
//
//   - [*api.AccountChangedError]: the record has another account, because the user has connected
//     it or another process has stored a clinic. Nothing was changed.
//   - [*ReauthorizeError] with [tokenstore.ReasonNotConnected]: the user is not connected.
//   - [*api.ArgumentError]: user or an id of clinic is invalid.
//   - [*StoreError]: the store failed.
//   - [tokenstore.ErrLeased]: another owner kept the lease for longer than [Config].LeaseTTL
//     and a minute.
//   - The error of ctx.
func (c *Connections) SetClinic(ctx context.Context, user string, account api.Account, clinic oauth.Clinic) error {
	key := c.Key(user)
	if err := errors.Join(key.Validate(), ids.ValidateClinic(clinic)); err != nil {
		return err
	}
	var changed error
	_, written, err := c.rewrite(ctx, key, func(_ context.Context, before tokenstore.Record) (oauth.Token, bool) {
		token := before.Token
		switch now := token.Account(); {
		case before.State != tokenstore.StateActive, token.Clinic == clinic:
			return token, false
		case now != account:
			changed = &api.AccountChangedError{Before: account, Now: now}
			return token, false
		}
		token.Clinic = clinic
		return token, true
	})
	if written.Version != 0 {
		c.users.forget(key) // the token in memory names the old clinic
	}
	return cmp.Or(err, changed)
}

// findClinic asks the platform for the clinic of a token. It returns zero if the clinic is
// unknown.
func (r *records) findClinic(ctx context.Context, key tokenstore.Key, token api.AccessToken) oauth.Clinic {
	if r.config.Clinic == nil {
		return oauth.Clinic{}
	}
	ctx, cancel := r.withResponseTimeout(ctx)
	defer cancel()
	clinic, err := r.config.Clinic(ctx, key, token)
	if err == nil {
		err = ids.ValidateClinic(clinic)
	}
	if err != nil {
		r.hooks.log(ctx, slog.LevelWarn, "could not find the clinic of a user", key, slog.Any("error", err))
		return oauth.Clinic{}
	}
	return clinic
}

// learnClinic finds the clinic of a user whose record has none, after a refresh. Only
// [Connections.Close] waits for it.
func (c *Connections) learnClinic(ctx context.Context, record tokenstore.Record) {
	if c.config.Clinic == nil || record.Token.Clinic != (oauth.Clinic{}) {
		return
	}
	c.users.join(ctx, callKey{key: record.Key, kind: clinicCall}, nil, func(ctx context.Context) (tokenstore.Record, error) {
		clinic := c.findClinic(ctx, record.Key, record.Token.Access())
		if clinic == (oauth.Clinic{}) {
			return tokenstore.Record{}, nil
		}
		err := c.SetClinic(ctx, record.Key.User, record.Token.Account(), clinic)
		if err != nil && !errors.Is(err, api.ErrAccountChanged) {
			c.hooks.log(ctx, slog.LevelWarn, "could not store the clinic of a user", record.Key, slog.Any("error", err))
		}
		return tokenstore.Record{}, err
	})
}
