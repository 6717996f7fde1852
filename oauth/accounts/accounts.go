// Package accounts connects the users of an integrator, its practitioners and
// staff, to the platform, and gives each of them the client that calls as them:
//
//	users, err := accounts.New(accounts.Config{
//		Applications: []oauth.Config{{Site: site, ClientID: id, ClientSecret: secret, RedirectURL: callback}},
//		Tokens:       tokens.Config{Store: store},
//	})
//	client, err := users.Client(ctx, userID)
//	patients, err := client.Clinic.Patients.List().Page(ctx)
//
// [Accounts.Handler] is the browser flow that connects a user,
// [Accounts.KeepFresh] refreshes tokens before they expire, and
// [Accounts.Status] and [Accounts.List] show how users stand. [Accounts.ForClinic] is for
// work that belongs to a clinic and not to one of its users, such as webhooks.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Config sets up [Accounts]. Applications and Tokens.Store are required.
type Config struct {
	// Applications are those of the developer dashboards, one for each
	// environment that users belong to. The Limiter of an application is also the limiter of
	// its users' clients, because the platform counts both.
	Applications []oauth.Config

	// Tokens sets up the tokens of all users of all environments: the store, observers and
	// so on. Set Tokens.Verify: without it, a user can connect an account of another clinic.
	// Leave Tokens.Client empty, because Accounts sets it. If Tokens.Clinic is nil,
	// Accounts calls GET /clinic with each token that has the scope for it.
	Tokens tokens.Config

	// Locate returns the environment that a user belongs to. It is required where
	// there are several applications, and is asked by every call of Client:
	// it should know the answer, not look for it.
	Locate func(ctx context.Context, user string) (dispensary.Environment, error)

	// Options configure the client of an environment: its logger, HTTP client
	// and so on. A token source is put in its place by Accounts. Nil
	// means none.
	Options func(dispensary.Environment) []dispensary.Option

	// ClinicKey returns the key of the clinic that a user works in, which the
	// user's client then sends with every call; "" sends that of Options, if any.
	// Like Locate it is asked by every call of Client. Nil sends no key per clinic. The
	// platform sends no webhook of a clinic before the first call with its key.
	// API section: "Authentication" 9.
	ClinicKey func(ctx context.Context, user string) (dispensary.Secret, error)
}

// Accounts are the platform accounts of the users of an integrator: their
// practitioners and staff, in every environment. Each gets the client that calls
// as them:
//
//	client, err := users.Client(ctx, user)
//	patients, err := client.Clinic.Patients.List().Page(ctx)
//
// A user is named by the integrator's own id; see [tokenstore.Key]. Make one Accounts
// when the program starts and share it. It is safe for concurrent use.
type Accounts struct {
	config       Config
	applications map[dispensary.Environment]*application
	order        []*application
}

// application is what serves the users of one environment.
type application struct {
	conns  *tokens.Connections
	client *dispensary.Client // unauthenticated: its views call as users
}

// New checks config and returns the accounts. It sends nothing and reads
// nothing.
func New(config Config) (*Accounts, error) {
	switch {
	case len(config.Applications) == 0:
		return nil, configError("Applications", "is empty")
	case config.Tokens.Store == nil:
		return nil, configError("Tokens.Store", "is nil")
	case config.Tokens.Client != nil:
		return nil, configError("Tokens.Client", "must be left empty")
	case config.Locate == nil && len(config.Applications) > 1:
		return nil, configError("Locate", "is nil: with several applications it has to find the one of each user")
	}
	a := &Accounts{config: config, applications: map[dispensary.Environment]*application{}}
	for _, c := range config.Applications {
		if err := a.add(c); err != nil {
			return nil, err
		}
	}
	a.config.Applications = nil // they hold secrets that are of no more use here
	return a, nil
}

func configError(field, reason string) error {
	return &api.ArgumentError{Field: "accounts.Config." + field, Reason: reason}
}

// add makes the clients of one application.
func (a *Accounts) add(config oauth.Config) error {
	environment := config.Site.Environment
	if _, twice := a.applications[environment]; twice {
		return configError("Applications", "holds two of "+environment.String())
	}
	app := &application{}
	client, err := oauth.New(config)
	if err != nil {
		return err
	}
	bound := a.config.Tokens
	bound.Client = client
	if bound.Clinic == nil {
		bound.Clinic = a.clinicOf(app)
	}
	if app.conns, err = tokens.NewConnections(bound); err != nil {
		return err
	}
	var options []dispensary.Option
	if config.Limiter != nil {
		options = append(options, dispensary.WithLimiter(config.Limiter))
	}
	if a.config.Options != nil {
		options = append(options, a.config.Options(environment)...)
	}
	if app.client, err = dispensary.New(config.Site, options...); err != nil {
		return err
	}
	a.applications[environment] = app
	a.order = append(a.order, app)
	return nil
}

// locate finds the application of a user.
func (a *Accounts) locate(ctx context.Context, user string) (*application, error) {
	app := a.order[0]
	if a.config.Locate != nil {
		environment, err := a.config.Locate(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("accounts: the environment of a user is not known: %w", err)
		}
		if app, err = a.application(environment); err != nil {
			return nil, err
		}
	}
	if err := app.conns.Key(user).Validate(); err != nil {
		return nil, err
	}
	return app, nil
}

// Client returns the client that calls as user. It is cheap, asks neither the
// store nor the platform, and is made for one request or job as well as for
// many. Whether the user is connected shows with the first call, which fails
// with an error that matches [dispensary.ErrReauthorize] if not; [Accounts.Status] asks.
//
// Errors: an [*api.ArgumentError] for what cannot name a user and for an environment
// without an application, and those of [Config.Locate] and [Config.ClinicKey].
func (a *Accounts) Client(ctx context.Context, user string) (*dispensary.Client, error) {
	app, err := a.locate(ctx, user)
	if err != nil {
		return nil, err
	}
	return a.client(ctx, app, app.conns.TokenSource(user), user)
}

// client returns the view of a client that calls with tokens and sends the key of a user's
// clinic.
func (a *Accounts) client(ctx context.Context, app *application, tokens api.TokenSource, user string, options ...dispensary.Option) (*dispensary.Client, error) {
	options = append(options, dispensary.WithTokenSource(tokens))
	if a.config.ClinicKey != nil {
		key, err := a.config.ClinicKey(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("accounts: the clinic key of a user is not known: %w", err)
		}
		if !key.IsZero() {
			options = append(options, dispensary.WithClinicKey(key))
		}
	}
	return app.client.With(options...)
}

// Connections returns the connections of an environment, for what Accounts does not
// do itself. It fails with an [*api.ArgumentError] if the environment has no
// application.
func (a *Accounts) Connections(environment dispensary.Environment) (*tokens.Connections, error) {
	app, err := a.application(environment)
	if err != nil {
		return nil, err
	}
	return app.conns, nil
}

// application finds that of an environment.
func (a *Accounts) application(environment dispensary.Environment) (*application, error) {
	app, ok := a.applications[environment]
	if !ok {
		return nil, &api.ArgumentError{Field: "environment", Reason: "has no application: " + environment.String()}
	}
	return app, nil
}

// Connect turns the code of a callback into a stored token of user, for programs
// with their own pages; others mount [Accounts.Handler]. A browser may send a callback
// twice, also to two replicas: call Connect within [tokens.Connections.RunFlow], so that
// the code is exchanged once. Errors are those of [tokens.Connections.Connect].
func (a *Accounts) Connect(ctx context.Context, user string, code dispensary.Secret) error {
	app, err := a.locate(ctx, user)
	if err != nil {
		return err
	}
	_, err = app.conns.Connect(ctx, user, code)
	return err
}

// Disconnect revokes the token of user and deletes it. A user who is not
// connected is no error. If the platform cannot be reached the user is marked, no
// call uses the token any more, and Disconnect can be repeated; see
// [tokens.Connections.Disconnect].
func (a *Accounts) Disconnect(ctx context.Context, user string) error {
	app, err := a.locate(ctx, user)
	if err != nil {
		return err
	}
	return app.conns.Disconnect(ctx, user)
}

// Restore removes the mark of a user who was marked as having to authorize again and
// need not: the token is still there. To restore many, range over
// [Accounts.List] with State [tokenstore.StateReauthorize]. See
// [tokens.Connections.Restore].
func (a *Accounts) Restore(ctx context.Context, user string) error {
	app, err := a.locate(ctx, user)
	if err != nil {
		return err
	}
	return app.conns.Restore(ctx, user)
}

// KeepFresh refreshes the tokens of users in use before they end, in all
// environments, until ctx ends; see [tokens.Connections.KeepFresh]. Run it on as many
// replicas as you like. It returns nil when it was stopped, and an error at once for an
// invalid policy.
func (a *Accounts) KeepFresh(ctx context.Context, policy tokens.KeepFreshPolicy) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	problems := make([]error, len(a.order))
	var running sync.WaitGroup
	for i, app := range a.order {
		running.Go(func() {
			if problems[i] = app.conns.KeepFresh(ctx, policy); problems[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(problems...)
}

// PendingCommits counts the refreshed token pairs that the store does not take: 0 in
// a healthy program. See [tokens.Connections.PendingCommits].
func (a *Accounts) PendingCommits() int {
	var n int
	for _, app := range a.order {
		n += app.conns.PendingCommits()
	}
	return n
}

// Paused returns until when refreshing in the background pauses in this process, for
// the environment where that is longest, and true if it does anywhere. See
// [tokens.Connections.Paused].
func (a *Accounts) Paused() (until time.Time, paused bool) {
	for _, app := range a.order {
		if end, pauses := app.conns.Paused(); pauses && end.After(until) {
			until, paused = end, true
		}
	}
	return until, paused
}

// Close waits until no refresh is under way and every token pair is stored.
// Call it before the program ends; see [tokens.Connections.Close].
func (a *Accounts) Close(ctx context.Context) error {
	var problems []error
	for _, app := range a.order {
		problems = append(problems, app.conns.Close(ctx))
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
		text += app.conns.Environment().String()
	}
	return text + "}"
}

// Format prints [Accounts.String] for every verb.
func (a *Accounts) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }
