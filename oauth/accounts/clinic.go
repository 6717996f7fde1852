package accounts

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// ClinicOptions says which users may call for a clinic. The zero value takes all.
type ClinicOptions struct {
	// Scopes are those that a user has to have granted. Users whose scopes are not
	// known are taken.
	Scopes []string

	// Limiter is asked before every attempt, before the client's own: see
	// [dispensary.WithLimiter]. Nil means none.
	Limiter api.Limiter
}

// Clinic is a clinic and the users who may call for it. Get it from
// [Accounts.ForClinic], for one job. It is safe for concurrent use.
type Clinic struct {
	// Environment and ID name the clinic.
	Environment dispensary.Environment
	ID          string

	// Client calls for the clinic, as one of its users, and sends the clinic's key if
	// [Config].ClinicKey knows one. When that user has to authorize again it goes on
	// as the next one, in the middle of a call if need be. Once there is none left,
	// calls fail with a [*ClinicError].
	Client *dispensary.Client

	source *clinicSource
}

// ForClinic returns what calls for a clinic: the client of one of the users who belong
// to it. It is made for work that comes with a clinic and without a user, as webhooks do:
//
//	key := webhook.HandlingFrom(ctx).Key
//	clinic, err := users.ForClinic(ctx, key.Environment, event.ClinicID, accounts.ClinicOptions{})
//	order, err := clinic.Client.Clinic.Orders.Get(ctx, event.Data.ID)
//
// The users are those whose last known clinic it is: see [oauth.Token].Clinic. ForClinic
// chooses one user per day, so that it uses a token in memory, and another one on the next
// day, to share the load.
//
// It makes two reads of the store: a list of up to 20 users of the clinic, and the record
// of the chosen user. It lists more users only if none of these can call. The list is not
// encrypted, so the record decides whether the user belongs to the clinic: a user whose
// record names another clinic is skipped. It calls the platform only to refresh the
// user's token.
//
// Errors: a [*ClinicError] if no user may call; [tokenstore.ErrUnreadable] if users cannot call
// only because their records cannot be decrypted; an [*api.ArgumentError] for an
// environment without an application and for an empty id;
// [*tokens.StoreError]; those of [tokens.TokenSource.Token] and of [Config.ClinicKey].
func (a *Accounts) ForClinic(ctx context.Context, environment dispensary.Environment, clinicID string, options ClinicOptions) (*Clinic, error) {
	if clinicID == "" {
		return nil, &api.ArgumentError{Field: "clinicID", Reason: "is empty"}
	}
	app, err := a.application(environment)
	if err != nil {
		return nil, err
	}
	source := newClinicSource(app, a.config.Tokens.Store, environment, clinicID, options.Scopes)
	if _, err := source.Token(ctx); err != nil {
		return nil, err
	}
	client, err := a.client(ctx, app, source, source.user(), dispensary.WithLimiter(options.Limiter))
	if err != nil {
		return nil, err
	}
	return &Clinic{Environment: environment, ID: clinicID, Client: client, source: source}, nil
}

// clinicKnown is for how long what GET /clinic answered is not asked for again.
const clinicKnown = 24 * time.Hour

// Integrations returns the ids of the application's integrations with the clinic, for
// package reconcile. It is the one that GET /clinic names, which is asked unless the user
// connected within the last day. Where it turns out that the user has moved to another
// clinic, that is written down, and the next user is asked. Errors are those of a call.
// API section: GET /clinic.
func (c *Clinic) Integrations(ctx context.Context) ([]string, error) {
	for {
		one, record, err := c.source.current(ctx)
		if err != nil {
			return nil, err
		}
		known := record.Token
		if known.Clinic.IntegrationID != "" && time.Since(known.ConnectedAt) < clinicKnown {
			return []string{known.Clinic.IntegrationID}, nil
		}
		got, err := c.Client.Clinic.Get(ctx)
		if err != nil {
			return nil, err
		}
		if c.source.first() != one {
			continue // the response may be about the previous user or the next one
		}
		now := oauth.Clinic{ID: got.ID, IntegrationID: got.IntegrationID, Name: got.Name}
		if now != known.Clinic {
			if err := c.source.app.conns.SetClinic(ctx, one.key.User, now); err != nil {
				return nil, err
			}
		}
		if now.ID == c.ID {
			return []string{now.IntegrationID}, nil
		}
		c.source.drop(one)
	}
}

// User returns the user as whom Client calls now, by the integrator's own id; empty if
// there is none left.
func (c *Clinic) User() string {
	return c.source.user()
}

// String names the clinic.
func (c *Clinic) String() string {
	return "accounts.Clinic{" + c.Environment.String() + "/" + c.ID + "}"
}

// Format prints [Clinic.String] for every verb.
func (c *Clinic) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Clinics returns the ids of the clinics of an environment that users are known to belong
// to, in the order of their bytes, beginning after the id after, and limit of them at
// most. A clinic whose users all have to authorize again is among them. The ids are not
// encrypted in the store: pass them to [Accounts.ForClinic], which checks them.
//
// Errors: an [*api.ArgumentError] for an environment without an application; the
// store's.
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

// clinicOf returns the function that asks the platform for the clinic of a token.
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
		if err != nil {
			return oauth.Clinic{}, err
		}
		return oauth.Clinic{ID: got.ID, IntegrationID: got.IntegrationID, Name: got.Name}, nil
	}
}

// newToken is the source of a token that is not stored yet.
type newToken struct{ token api.AccessToken }

func (n newToken) Token(context.Context) (api.AccessToken, error) { return n.token, nil }

// ClinicError says that no user may call for a clinic. It matches
// [dispensary.ErrReauthorize]: only users of the clinic can help, by connecting.
type ClinicError struct {
	Environment dispensary.Environment
	ClinicID    string

	// Users is how many users are known to belong to the clinic, and MissingScope how
	// many of them have not granted what was asked for. The others have to authorize
	// again.
	Users, MissingScope int
}

// Error names the clinic, and why nothing can be done for it.
func (e *ClinicError) Error() string {
	text := fmt.Sprintf("accounts: no user may call for clinic %s of %s: ", e.ClinicID, e.Environment)
	if e.Users == 0 {
		return text + "none is known to belong to it"
	}
	return text + fmt.Sprintf("of %d, %d have to authorize again and %d have not granted the scopes", e.Users, e.Users-e.MissingScope, e.MissingScope)
}

// Is makes every ClinicError match [dispensary.ErrReauthorize].
func (e *ClinicError) Is(target error) bool { return target == dispensary.ErrReauthorize }
