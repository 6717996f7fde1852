// Package accounts connects the users of an integrator, its practitioners and
// staff, to the platform, and gives each of them the client that calls as them:
//
//	users, err := accounts.New(accounts.Config{
//		Applications: []oauth.Config{{Site: site, ClientID: id, ClientSecret: secret, RedirectURL: callback}},
//		Store:        store,
//	})
//	client, err := users.Client(ctx, userID)
//	patients, err := client.Clinic.Patients.List(ctx, clinic.PatientListOptions{})
//
// [Accounts.Handler] is the browser flow that connects a user,
// [Accounts.KeepFresh] refreshes tokens before they expire, and
// [Accounts.Status] and [Accounts.List] show how users stand.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
)

// DefaultCachedUsers is how many users' tokens [Accounts] keeps in memory: about
// 45 MB when all of them are there.
const DefaultCachedUsers = 100_000

// Config sets up [Accounts]. Applications and Store are required.
type Config struct {
	// Applications are those of the developer dashboards, one for each
	// environment that users belong to.
	Applications []oauth.Config

	// Store keeps the tokens of all users of all environments.
	Store oauth.Store

	// Locate tells which environment a user belongs to. It is required where
	// there are several applications, and is asked for every call of Client:
	// it should know the answer, not look for it.
	Locate func(ctx context.Context, user string) (dispensary.Environment, error)

	// Options configure the client of an environment: its limiter, logger, HTTP
	// client and so on. A token source is put in its place by Accounts. Nil
	// means none.
	Options func(dispensary.Environment) []dispensary.Option

	// ClinicKey returns the key of the clinic that a user works in, which the
	// user's client then sends with every call; "" sends that of Options, if any.
	// Like Locate it is asked by every call of Client. Nil sends no key per clinic.
	// API section: "Authentication" 9.
	ClinicKey func(ctx context.Context, user string) (dispensary.Secret, error)

	// OnEvent is told what happens to users and applications, after the
	// OnEvent of the application itself. See [oauth.Config].
	OnEvent func(ctx context.Context, event oauth.Event)

	// CachedUsers bounds the users whose tokens are kept in memory; 0 means
	// [DefaultCachedUsers]. Whoever was not used for longest is dropped, and
	// costs a look into the store when used again.
	CachedUsers int
}

// Accounts are the platform accounts of the users of an integrator: their
// practitioners and staff, in every environment. It connects and disconnects
// them, and gives each the client that calls as them:
//
//	client, err := accounts.Client(ctx, user)
//	patients, err := client.Clinic.Patients.List(ctx, clinic.PatientListOptions{})
//
// A user is named by the integrator's own id; see [oauth.Key]. Make one Accounts
// when the program starts and share it. It is safe for concurrent use.
type Accounts struct {
	config       Config
	applications map[dispensary.Environment]*application
	order        []*application
	sources      sourceCache
}

// application is what serves the users of one environment.
type application struct {
	oauth  *oauth.Client
	client *dispensary.Client // of nobody: views of it call as users
}

// New checks config and returns the accounts. It sends nothing and reads
// nothing.
func New(config Config) (*Accounts, error) {
	switch {
	case len(config.Applications) == 0:
		return nil, configError("Applications", "is empty")
	case config.Store == nil:
		return nil, configError("Store", "is nil")
	case config.Locate == nil && len(config.Applications) > 1:
		return nil, configError("Locate", "is nil: with several applications it has to tell them apart")
	case config.CachedUsers < 0:
		return nil, configError("CachedUsers", "must not be negative")
	}
	if config.CachedUsers == 0 {
		config.CachedUsers = DefaultCachedUsers
	}
	a := &Accounts{config: config, applications: map[dispensary.Environment]*application{}}
	a.sources.limit = config.CachedUsers
	for _, c := range config.Applications {
		if err := a.add(c); err != nil {
			return nil, err
		}
	}
	a.config.Applications = nil // they hold secrets that are of no more use here
	return a, nil
}

func configError(field, reason string) error {
	return &dispensary.ArgumentError{Field: "accounts.Config." + field, Reason: reason}
}

// add makes the clients of one application.
func (a *Accounts) add(config oauth.Config) error {
	environment := config.Site.Environment
	if _, twice := a.applications[environment]; twice {
		return configError("Applications", "holds two of "+environment.String())
	}
	app := &application{}
	config.OnEvent = a.observer(app, config.OnEvent)
	var err error
	if app.oauth, err = oauth.New(config); err != nil {
		return err
	}
	var options []dispensary.Option
	if a.config.Options != nil {
		options = a.config.Options(environment)
	}
	if app.client, err = dispensary.New(config.Site, options...); err != nil {
		return err
	}
	a.applications[environment] = app
	a.order = append(a.order, app)
	return nil
}

// observer keeps the tokens in memory in step with what happens, and tells the
// integrator.
func (a *Accounts) observer(app *application, own func(context.Context, oauth.Event)) func(context.Context, oauth.Event) {
	return func(ctx context.Context, event oauth.Event) {
		switch event.(type) {
		case oauth.Connected, oauth.Disconnected, oauth.MustReauthorize:
			a.sources.forget(sourceKey{app, event.Subject().User})
		}
		for _, hook := range []func(context.Context, oauth.Event){own, a.config.OnEvent} {
			if hook != nil {
				hook(ctx, event)
			}
		}
	}
}

// of finds the application of a user.
func (a *Accounts) of(ctx context.Context, user string) (*application, error) {
	app := a.order[0]
	if a.config.Locate != nil {
		environment, err := a.config.Locate(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("accounts: the environment of a user is not known: %w", err)
		}
		known := false
		if app, known = a.applications[environment]; !known {
			return nil, fmt.Errorf("%w: no application for %s", dispensary.ErrUnknownSite, environment)
		}
	}
	if err := app.oauth.Key(user).Validate(); err != nil {
		return nil, err
	}
	return app, nil
}

// Client returns the client that calls as user. It is cheap, asks neither the
// store nor the platform, and is made for one request or job as well as for
// many. Whether the user is connected shows with the first call, which fails
// with an error that matches [dispensary.ErrReauthorize] if not; [Accounts.Status] asks.
//
// Errors: an [*dispensary.ArgumentError] for what cannot name a user, those of
// [Config.Locate] and [Config.ClinicKey], and [dispensary.ErrUnknownSite].
func (a *Accounts) Client(ctx context.Context, user string) (*dispensary.Client, error) {
	app, err := a.of(ctx, user)
	if err != nil {
		return nil, err
	}
	client := app.client.WithTokenSource(a.source(app, user))
	if a.config.ClinicKey == nil {
		return client, nil
	}
	key, err := a.config.ClinicKey(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("accounts: the clinic key of a user is not known: %w", err)
	}
	if key != "" {
		client = client.WithClinicKey(key)
	}
	return client, nil
}

// source returns the source of a user's tokens, from memory if it is there.
func (a *Accounts) source(app *application, user string) *oauth.UserTokenSource {
	return a.sources.get(sourceKey{app, user}, func() *oauth.UserTokenSource {
		return app.oauth.TokenSource(a.config.Store, user)
	})
}

// OAuth returns the OAuth client of an environment, for what Accounts does not
// do itself. It fails with [dispensary.ErrUnknownSite] where there is no application.
func (a *Accounts) OAuth(environment dispensary.Environment) (*oauth.Client, error) {
	app, ok := a.applications[environment]
	if !ok {
		return nil, fmt.Errorf("%w: no application for %s", dispensary.ErrUnknownSite, environment)
	}
	return app.oauth, nil
}

// Connect turns the code of a callback into a stored token of user, for programs
// with pages of their own; others mount [Accounts.Handler]. Errors are those of
// [oauth.Client.Connect].
func (a *Accounts) Connect(ctx context.Context, user string, code dispensary.Secret) error {
	app, err := a.of(ctx, user)
	if err != nil {
		return err
	}
	_, err = app.oauth.Connect(ctx, a.config.Store, user, code, nil)
	return err
}

// Disconnect revokes the token of user and forgets it. A user who is not
// connected is no error. If the platform cannot be told the user is marked, no
// call uses the token any more, and Disconnect can be repeated; see
// [oauth.Client.Disconnect].
func (a *Accounts) Disconnect(ctx context.Context, user string) error {
	app, err := a.of(ctx, user)
	if err != nil {
		return err
	}
	defer a.sources.forget(sourceKey{app, user}) // marked, if not gone
	return app.oauth.Disconnect(ctx, a.config.Store, user)
}

// Restore takes a user's mark away who was marked as having to authorize again and
// need not: the token is still there. To restore many, range over
// [Accounts.List] with State [oauth.StateReauthorize]. See [oauth.Client.Restore].
func (a *Accounts) Restore(ctx context.Context, user string) error {
	app, err := a.of(ctx, user)
	if err != nil {
		return err
	}
	return app.oauth.Restore(ctx, a.config.Store, user)
}

// KeepFresh refreshes the tokens of users in use before they end, in all
// environments, until ctx ends; see [oauth.Refresher]. Run it on as many replicas
// as you like. It returns nil when it was stopped, and an error that matches
// [errors.ErrUnsupported] at once if the store cannot do its part.
func (a *Accounts) KeepFresh(ctx context.Context, policy oauth.RefreshPolicy) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	refreshers := make([]*oauth.Refresher, len(a.order))
	for i, app := range a.order {
		var err error
		if refreshers[i], err = oauth.NewRefresher(app.oauth, a.config.Store, policy); err != nil {
			return err
		}
	}
	problems := make([]error, len(refreshers))
	var running sync.WaitGroup
	for i, refresher := range refreshers {
		running.Go(func() {
			if problems[i] = refresher.Run(ctx); problems[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(problems...)
}

// Unwritten counts the refreshed token pairs that the store does not take: 0 in a
// healthy program. See [oauth.Client.Unwritten].
func (a *Accounts) Unwritten() int {
	var n int
	for _, app := range a.order {
		n += app.oauth.Unwritten()
	}
	return n
}

// Shutdown waits until no refresh is under way and every token pair is stored.
// Call it before the program ends; see [oauth.Client.Shutdown].
func (a *Accounts) Shutdown(ctx context.Context) error {
	var problems []error
	for _, app := range a.order {
		problems = append(problems, app.oauth.Shutdown(ctx))
	}
	return errors.Join(problems...)
}

// String names the environments.
func (a *Accounts) String() string {
	text := "accounts.Accounts{"
	for i, app := range a.order {
		if i > 0 {
			text += " "
		}
		text += app.oauth.Environment().String()
	}
	return text + "}"
}

// Format prints [Accounts.String] for every verb.
func (a *Accounts) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }
