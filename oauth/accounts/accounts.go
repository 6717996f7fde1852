// Package accounts connects your users, practitioners and staff, to their platform accounts
// and returns a client for each of them:
//
//	users, err := accounts.New(accounts.Config{
//		Applications: []oauth.Config{{Site: site, ClientID: id, ClientSecret: secret, RedirectURL: callback}},
//		Tokens:       tokens.Config{Store: store},
//	})
//	client, err := users.Client(ctx, userID)
//	patients, err := client.Clinic.Patients.List().Page(ctx)
//
// # Usage
//
// Package accounts combines packages oauth, oauth/tokens and oauth/connect for one or more
// environments. You identify a user by your own ID.
//
//   - [Accounts.Handler] returns the pages of the browser flow that connects a user.
//   - [Accounts.Client] returns the client of a user.
//   - [Accounts.ForClinic] returns a client for work that belongs to a clinic and not to one
//     of its users, such as webhooks.
//   - [Accounts.AnyUser] returns a client for work that belongs to no clinic, such as a copy of
//     the catalog.
//   - [Accounts.KeepFresh] refreshes tokens before they expire. Run it in the background.
//   - [Accounts.Status] returns the status of a user, and [Accounts.List] the status of all
//     users.
//   - [Accounts.Close] waits for pending refreshes and writes before your program exits.
//
// # Errors
//
// A call of a user who is not connected, or whose authorization was revoked, fails with an
// error that matches [dispensary.ErrReauthorize]. Send the user through the browser flow
// again.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Config configures [Accounts]. Applications and Tokens.Store are required.
type Config struct {
	// Applications are your applications in the developer dashboard, one for each environment
	// with users. The Limiter of an application also limits the clients of its users, because
	// the platform counts both together.
	Applications []oauth.Config

	// Tokens configures the tokens of all users in all environments: the store, observers and
	// so on. Set Tokens.Verify. Without it, a user can connect an account of another clinic.
	// Leave Tokens.Client empty, because Accounts sets it. If Tokens.Clinic is nil, Accounts
	// calls GET /clinic with each token that has the scope for it.
	Tokens tokens.Config

	// Locate returns the environment of a user. It is required if there are several
	// applications. Every call of Client calls it, so it should respond from memory.
	Locate func(ctx context.Context, user string) (dispensary.Environment, error)

	// Options returns the options for the client of an environment, such as its logger and
	// HTTP client. Accounts replaces any token source among them. Nil means no options.
	Options func(dispensary.Environment) []dispensary.Option

	// ClinicKey returns the key of the user's clinic. The user's client sends it with every
	// call. "" means the key in Options, if any. Every call of Client calls ClinicKey, so it
	// should respond from memory. Nil means no key per clinic. The platform sends no webhooks
	// of a clinic before the first call with its key.
	//
	// GET /clinic for a new token sends the key, too. If the platform rejects the key with the
	// token, the call is repeated without, so that Tokens.Verify learns the clinic of the account,
	// and a warning is logged. If the platform requires the key there, the clinic stays unknown.
	// API section: "Authentication" 9.
	ClinicKey func(ctx context.Context, user string) (dispensary.Secret, error)
}

// Accounts manages the platform accounts of your users, practitioners and staff, in every
// environment. It returns the client of each user:
//
//	client, err := users.Client(ctx, user)
//	patients, err := client.Clinic.Patients.List().Page(ctx)
//
// You identify a user by your own ID, see [tokenstore.Key]. Create one Accounts at startup and
// share it. It is safe for concurrent use.
type Accounts struct {
	config       Config
	applications map[dispensary.Environment]*application
	order        []*application
}

// application contains the connections and the client for the users of one environment.
type application struct {
	conns  *tokens.Connections
	client *dispensary.Client // has no token: its views call as users
}

// New validates config and returns the accounts. It sends no request and does not read the
// store.
func New(config Config) (*Accounts, error) {
	switch {
	case len(config.Applications) == 0:
		return nil, configError("Applications", "is empty")
	case config.Tokens.Store == nil:
		return nil, configError("Tokens.Store", "is nil")
	case config.Tokens.Client != nil:
		return nil, configError("Tokens.Client", "must be left empty")
	case config.Locate == nil && len(config.Applications) > 1:
		return nil, configError("Locate", "is nil, but several applications need it to find the environment of a user")
	}
	a := &Accounts{config: config, applications: map[dispensary.Environment]*application{}}
	for _, c := range config.Applications {
		if err := a.add(c); err != nil {
			return nil, err
		}
	}
	a.config.Applications = nil // contains secrets that are no longer needed
	return a, nil
}

func configError(field, reason string) error {
	return &api.ArgumentError{Field: "accounts.Config." + field, Reason: reason}
}

// add creates the clients of one application.
func (a *Accounts) add(config oauth.Config) error {
	environment := config.Site.Environment
	if _, twice := a.applications[environment]; twice {
		return configError("Applications", "contains two applications of "+environment.String())
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

// locate returns the application of a user.
func (a *Accounts) locate(ctx context.Context, user string) (*application, error) {
	app := a.order[0]
	if a.config.Locate != nil {
		environment, err := a.config.Locate(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("accounts: cannot find the environment of a user: %w", err)
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

// Client returns the client that calls as user. It is cheap and accesses neither the store nor
// the platform. You can create one per request or job, or keep one. If the user is not
// connected, the first call fails with an error that matches [dispensary.ErrReauthorize]. To
// check in advance, call [Accounts.Status].
//
// Errors are an [*api.ArgumentError] for an invalid user ID or an environment without an
// application, and the errors of [Config.Locate] and [Config.ClinicKey].
func (a *Accounts) Client(ctx context.Context, user string) (*dispensary.Client, error) {
	app, err := a.locate(ctx, user)
	if err != nil {
		return nil, err
	}
	return a.client(ctx, app, app.conns.TokenSource(user), user)
}

// client returns a client that calls with tokens and sends the key of the user's clinic.
func (a *Accounts) client(ctx context.Context, app *application, tokens api.TokenSource, user string, options ...dispensary.Option) (*dispensary.Client, error) {
	options = append(options, dispensary.WithTokenSource(tokens))
	if a.config.ClinicKey != nil {
		key, err := a.config.ClinicKey(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("accounts: cannot find the clinic key of a user: %w", err)
		}
		if !key.IsZero() {
			options = append(options, dispensary.WithClinicKey(key))
		}
	}
	return app.client.With(options...)
}

// Connections returns the connections of an environment, for features that Accounts does not
// have. It fails with an [*api.ArgumentError] if the environment has no application.
func (a *Accounts) Connections(environment dispensary.Environment) (*tokens.Connections, error) {
	app, err := a.application(environment)
	if err != nil {
		return nil, err
	}
	return app.conns, nil
}

// application returns the application of an environment.
func (a *Accounts) application(environment dispensary.Environment) (*application, error) {
	app, ok := a.applications[environment]
	if !ok {
		return nil, &api.ArgumentError{Field: "environment", Reason: "has no application: " + environment.String()}
	}
	return app, nil
}

// Connect exchanges the code of a callback and stores the token of user. Call it if your
// program has its own pages. Otherwise mount [Accounts.Handler]. A browser may send a callback
// twice, even to two replicas. To exchange the code only once, call Connect within
// [tokens.Connections.RunFlow]. The errors are those of [tokens.Connections.Connect].
func (a *Accounts) Connect(ctx context.Context, user string, code dispensary.Secret) error {
	app, err := a.locate(ctx, user)
	if err != nil {
		return err
	}
	_, err = app.conns.Connect(ctx, user, code)
	return err
}

// Disconnect revokes the token of user and deletes it. It succeeds if the user is not
// connected. If the platform is unreachable, Disconnect marks the user: calls stop using the
// token, and you can retry Disconnect. See [tokens.Connections.Disconnect].
func (a *Accounts) Disconnect(ctx context.Context, user string) error {
	app, err := a.locate(ctx, user)
	if err != nil {
		return err
	}
	return app.conns.Disconnect(ctx, user)
}

// Restore removes the mark of a user wrongly marked as having to authorize again. The token is
// still stored. To restore many users, range over [Accounts.List] with State
// [tokenstore.StateReauthorize]. See [tokens.Connections.Restore].
func (a *Accounts) Restore(ctx context.Context, user string) error {
	app, err := a.locate(ctx, user)
	if err != nil {
		return err
	}
	return app.conns.Restore(ctx, user)
}

// KeepFresh refreshes the tokens of active users before they expire, in all environments,
// until ctx ends. Run it on any number of replicas. It returns nil once it was stopped, and an
// error immediately if the policy is invalid. See [tokens.Connections.KeepFresh].
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

// PendingCommits returns the number of refreshed token pairs that the store has not accepted
// yet. It is 0 in a healthy program. See [tokens.Connections.PendingCommits].
func (a *Accounts) PendingCommits() int {
	var n int
	for _, app := range a.order {
		n += app.conns.PendingCommits()
	}
	return n
}

// Paused reports whether background refreshes pause in this process in any environment. until
// is the latest end of these pauses. See [tokens.Connections.Paused].
func (a *Accounts) Paused() (until time.Time, paused bool) {
	for _, app := range a.order {
		if end, pauses := app.conns.Paused(); pauses && end.After(until) {
			until, paused = end, true
		}
	}
	return until, paused
}

// Close waits until no refresh is running and every token pair is stored. If ctx ends first, it
// stops the open work. Call it before your program exits. See [tokens.Connections.Close].
func (a *Accounts) Close(ctx context.Context) error {
	var problems []error
	for _, app := range a.order {
		problems = append(problems, app.conns.Close(ctx))
	}
	return errors.Join(problems...)
}

// String returns the environments.
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

// Handler returns the pages that connect users. Mount it under a path, see [connect.Handler].
// Leave Connections of config empty, because Accounts sets it. With several environments, each
// user is sent to the platform of their environment. The redirect URLs of all applications
// must then have the same last path element.
func (a *Accounts) Handler(config connect.Config) (http.Handler, error) {
	if config.Connections != nil {
		return nil, &api.ArgumentError{Field: "connect.Config.Connections", Reason: "must be left empty"}
	}
	if config.User == nil {
		return nil, &api.ArgumentError{Field: "connect.Config.User", Reason: "is nil"}
	}
	router := &accountsHandler{accounts: a, user: config.User, handlers: map[*application]*connect.Handler{}}
	config.User = locatedUser
	for _, app := range a.order {
		config.Connections = app.conns
		handler, err := connect.New(config)
		if err != nil {
			return nil, err
		}
		router.handlers[app] = handler
	}
	return router, nil
}

// accountsHandler passes each request to the handler for the user's environment.
type accountsHandler struct {
	accounts *Accounts
	user     func(*http.Request) (string, error)
	handlers map[*application]*connect.Handler
}

type locatedKey struct{}

// located is the result of the user lookup for a request.
type located struct {
	user string
	err  error
}

// ServeHTTP implements [http.Handler].
func (h *accountsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bare := r.Clone(r.Context()) // the hook may log the request, so hide code and state
	bare.URL.RawQuery, bare.URL.ForceQuery = "", false
	bare.RequestURI = bare.URL.EscapedPath()
	bare.Form, bare.PostForm = nil, nil
	who, app := located{}, h.accounts.order[0]
	if who.user, who.err = h.user(bare); who.err == nil && app.conns.Key(who.user).Validate() == nil {
		found, err := h.accounts.locate(r.Context(), who.user)
		if err != nil { // the user is signed in, so this is not a missing session
			who.err = fmt.Errorf("%w: %w", connect.ErrUserLookup, err)
		} else {
			app = found
		}
	}
	h.handlers[app].ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), locatedKey{}, who)))
}

func locatedUser(r *http.Request) (string, error) {
	who, _ := r.Context().Value(locatedKey{}).(located)
	return who.user, who.err
}
