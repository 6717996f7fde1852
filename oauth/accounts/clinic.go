package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// ClinicOptions limits the users and the calls of a [Clinic] or of [Accounts.AnyUser]. The zero
// value allows all users.
type ClinicOptions struct {
	// Scopes are the required scopes of a user. A user with unknown scopes is allowed.
	Scopes []string

	// Limiter delays every attempt, before the client's own limiter. See
	// [dispensary.WithLimiter]. Nil means no additional limit.
	Limiter api.Limiter
}

// Clinic is a clinic with its users. Get it from [Accounts.ForClinic] for one job. It is safe
// for concurrent use.
type Clinic struct {
	// Environment and ID identify the clinic.
	Environment dispensary.Environment
	ID          string

	// Client calls as one of the clinic's users and sends the clinic's key if
	// [Config].ClinicKey returns one. If the user has to authorize again or has connected an
	// account of another clinic, Client switches to the next user, even during a call. If no
	// user is left, calls fail with a [*ClinicError].
	Client *dispensary.Client

	source *clinicSource
}

// ForClinic returns a clinic whose client calls as one of the users of the clinic. Use it for
// work that has a clinic but no user, such as a webhook:
//
//	key := webhook.HandlingFrom(ctx).Key
//	clinic, err := users.ForClinic(ctx, key.Environment, event.ClinicID, accounts.ClinicOptions{})
//	order, err := clinic.Client.Clinic.Orders.Get(ctx, event.Object.ID)
//
// A user belongs to the clinic if it is the user's last known clinic, see
// [oauth.Token].Clinic. ForClinic chooses one user per day, whose token then stays in memory.
// It chooses another user on the next day to share the load.
//
// ForClinic reads a list of up to 20 users of the clinic from the store, and the record of the
// chosen user unless its token is in memory. It lists more users only if none of these can
// call. The list is not encrypted, so only the record decides whether the user belongs to the
// clinic: ForClinic skips a user whose token names another clinic. It calls the platform only
// to refresh the user's token.
//
// Errors:
//
//   - [*ClinicError]: no user may call.
//   - [tokenstore.ErrUnreadable]: users cannot call only because their records cannot be
//     decrypted.
//   - [*api.ArgumentError]: clinicID is empty, or the environment has no application.
//   - [*tokens.StoreError], and the errors of [tokens.TokenSource.Token] and
//     [Config.ClinicKey].
func (a *Accounts) ForClinic(ctx context.Context, environment dispensary.Environment, clinicID string, options ClinicOptions) (*Clinic, error) {
	if clinicID == "" {
		return nil, &api.ArgumentError{Field: "clinicID", Reason: "is empty"}
	}
	app, err := a.application(environment)
	if err != nil {
		return nil, err
	}
	source := a.newSource(app, clinicID, options.Scopes)
	if _, err := source.Token(ctx); err != nil {
		return nil, err
	}
	user, err := source.current(ctx)
	if err != nil {
		return nil, err
	}
	client, err := a.client(ctx, app, source, user.Key().User, dispensary.WithLimiter(options.Limiter))
	if err != nil {
		return nil, err
	}
	return &Clinic{Environment: environment, ID: clinicID, Client: client, source: source}, nil
}

// Integrations returns the IDs of the application's integrations with the clinic, for package
// reconcile. There is one, from the response of GET /clinic. If the user has moved to another
// clinic, Integrations stores the new clinic and continues with the next user, and so it does if
// the platform rejects the user. The errors are those of a call.
// API section: GET /clinic.
func (c *Clinic) Integrations(ctx context.Context) (ids []string, err error) {
	_, err = c.source.next(ctx, func(user tokens.TokenSource) error {
		found, err := c.clinicOf(ctx, user)
		switch {
		case errors.Is(err, api.ErrAccountChanged), errors.Is(err, tokenstore.ErrNoRecord), err == nil && found.ID != c.ID:
			return errOtherClinic
		case err == nil:
			ids = []string{found.IntegrationID}
		}
		return err
	})
	return ids, err
}

// clinicOf returns the clinic of a user and stores it if it has changed.
func (c *Clinic) clinicOf(ctx context.Context, user tokens.TokenSource) (oauth.Clinic, error) {
	conns := c.source.app.conns
	record, err := conns.Record(ctx, user.Key().User)
	if err != nil {
		return oauth.Clinic{}, err
	}
	known := record.Token
	client, err := c.Client.With(dispensary.WithTokenSource(user))
	if err != nil {
		return oauth.Clinic{}, err
	}
	got, err := client.Clinic.Get(transport.AsAccount(ctx, known.Account()))
	if err != nil {
		return oauth.Clinic{}, err
	}
	now := oauth.Clinic{ID: got.ID, IntegrationID: got.IntegrationID, Name: got.Name}
	if now != known.Clinic {
		err = conns.SetClinic(ctx, user.Key().User, known.Account(), now)
	}
	return now, err
}

// User returns your ID of the user as whom Client calls now. It is empty if no user is left.
func (c *Clinic) User() string {
	c.source.mu.Lock()
	defer c.source.mu.Unlock()
	for _, user := range slices.Concat(c.source.users, c.source.later) {
		return user.Key().User
	}
	return ""
}

// String returns the environment and ID of the clinic.
func (c *Clinic) String() string {
	return "accounts.Clinic{" + c.Environment.String() + "/" + c.ID + "}"
}

// Format prints [Clinic.String] for every verb.
func (c *Clinic) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Clinics returns up to limit IDs of clinics with known users in an environment, sorted by
// bytes and starting after the ID after. Fewer than limit are the last ones. It includes a clinic
// whose users all have to authorize again. The IDs are not encrypted in the store: pass them to
// [Accounts.ForClinic], which verifies them.
//
// Errors are an [*api.ArgumentError] for an environment without an application, and the errors
// of the store.
func (a *Accounts) Clinics(ctx context.Context, environment dispensary.Environment, after string, limit int) ([]string, error) {
	if _, err := a.application(environment); err != nil {
		return nil, err
	}
	ids, err := a.config.Tokens.Store.ListClinics(ctx, environment, after, limit)
	if err != nil {
		return nil, fmt.Errorf("accounts: listing the clinics of %s: %w", environment, err)
	}
	return ids, nil
}

// clinicOf returns a function that gets the clinic of a token from the platform.
func (a *Accounts) clinicOf(app *application) func(context.Context, tokenstore.Key, api.AccessToken) (oauth.Clinic, error) {
	return func(ctx context.Context, key tokenstore.Key, token api.AccessToken) (oauth.Clinic, error) {
		if token.Scope != "" && !token.HasScope("clinic:read") {
			return oauth.Clinic{}, nil
		}
		client, err := a.client(ctx, app, newToken{token}, key.User)
		if err != nil {
			return oauth.Clinic{}, err
		}
		got, err := client.Clinic.Get(ctx)
		if errors.Is(err, api.ErrUnauthorized) { // the account may belong to another clinic than the key
			bare, problem := client.With(dispensary.WithoutClinicKey())
			if problem != nil {
				return oauth.Clinic{}, problem
			}
			if other, problem := bare.Clinic.Get(ctx); problem == nil {
				app.conns.Client().Logger().LogAttrs(ctx, slog.LevelWarn, "accounts: the platform rejects the clinic key of a user, or the account belongs to another clinic",
					slog.String("environment", key.Environment.String()), slog.String("user", key.User), slog.String("clinic", other.ID))
				got, err = other, nil
			}
		}
		if err != nil {
			return oauth.Clinic{}, err
		}
		return oauth.Clinic{ID: got.ID, IntegrationID: got.IntegrationID, Name: got.Name}, nil
	}
}

// newToken is the token source for a token that is not stored yet.
type newToken struct{ token api.AccessToken }

func (n newToken) Token(context.Context) (api.AccessToken, error) { return n.token, nil }

// ClinicError means that no user may call for a clinic, or in an environment. It matches
// [dispensary.ErrReauthorize], because only a user can fix it, by connecting.
type ClinicError struct {
	Environment dispensary.Environment
	ClinicID    string // empty for [Accounts.AnyUser]

	// Users is the number of known users, or of connected users for [Accounts.AnyUser].
	// MissingScope is the number of these users without the required scopes. The others have
	// to authorize again.
	Users, MissingScope int
}

// Error returns the clinic and the reason.
func (e *ClinicError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := "accounts: no user may call for " + e.place() + ": "
	switch {
	case e.Users == 0 && e.ClinicID == "":
		return text + "it has no connected users"
	case e.Users == 0:
		return text + "it has no known users"
	}
	return text + fmt.Sprintf("of %d users, %d must authorize again and %d have not granted the scopes", e.Users, e.Users-e.MissingScope, e.MissingScope)
}

// place returns the clinic or the environment.
func (e *ClinicError) place() string {
	if e.ClinicID == "" {
		return e.Environment.String()
	}
	return fmt.Sprintf("clinic %s of %s", e.ClinicID, e.Environment)
}

// Is makes every ClinicError match [dispensary.ErrReauthorize].
func (e *ClinicError) Is(target error) bool { return e != nil && target == dispensary.ErrReauthorize }
