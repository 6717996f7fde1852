package accounts

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// ClinicOptions says which users may call for a clinic. The zero value takes all.
type ClinicOptions struct {
	// Scopes are those that a user has to have granted. Users whose scopes are not
	// known are taken.
	Scopes []string

	// Limiter is asked before every attempt, before the client's own: see
	// [dispensary.Client.WithLimiter]. Nil means none.
	Limiter dispensary.Limiter
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
// The users are those whose last known clinic it is: see [oauth.Token].Clinic. For a day
// it is the same one, whose token is in use then, and the next day another one, so that
// the load of a clinic is shared. It reads the store once, and asks the platform only
// where the user's token has to be refreshed.
//
// Errors: a [*ClinicError] if no user may call; [dispensary.ErrUnknownSite] where there is
// no application; an [*dispensary.ArgumentError] for an empty id; [errors.ErrUnsupported]
// if the store is no [tokens.Lister]; those of [tokens.TokenSource.Token] and of
// [Config.ClinicKey].
func (a *Accounts) ForClinic(ctx context.Context, environment dispensary.Environment, clinicID string, options ClinicOptions) (*Clinic, error) {
	if clinicID == "" {
		return nil, &dispensary.ArgumentError{Field: "clinicID", Reason: "is empty"}
	}
	app, err := a.application(environment)
	if err != nil {
		return nil, err
	}
	source := &clinicSource{accounts: a, app: app, none: ClinicError{Environment: environment, ClinicID: clinicID}}
	if source.users, err = a.clinicUsers(ctx, source, options.Scopes); err != nil {
		return nil, err
	}
	if _, err := source.Token(ctx); err != nil {
		return nil, err
	}
	client, err := a.withClinicKey(ctx, app.client.WithTokenSource(source), source.first().record.Key.User)
	if err != nil {
		return nil, err
	}
	if options.Limiter != nil {
		client = client.WithLimiter(options.Limiter)
	}
	return &Clinic{Environment: environment, ID: clinicID, Client: client, source: source}, nil
}

// clinicUsers returns the users of a clinic in the order in which they are to be tried:
// those that are marked last, because a mark may be wrong.
func (a *Accounts) clinicUsers(ctx context.Context, s *clinicSource, scopes []string) ([]*clinicUser, error) {
	lister, err := a.lister()
	if err != nil {
		return nil, err
	}
	var all []tokens.Record
	listing := tokens.Listing{Environment: s.none.Environment, ClinicID: s.none.ClinicID, Limit: accountPage}
	for {
		records, err := lister.List(ctx, listing)
		if err != nil {
			return nil, fmt.Errorf("accounts: listing the users of clinic %s of %s: %w", listing.ClinicID, listing.Environment, err)
		}
		all = append(all, records...)
		if len(records) < listing.Limit {
			break
		}
		listing.After = records[len(records)-1].Key.User
	}
	var usable, marked []*clinicUser
	s.none.Users = len(all)
	for i := range all {
		record := all[(firstOfDay(listing.ClinicID, len(all))+i)%len(all)]
		switch {
		case !grants(record.Token, scopes):
			s.none.MissingScope++
		case s.app.conns.Usable(record) != nil:
			marked = append(marked, &clinicUser{record: record})
		default:
			usable = append(usable, &clinicUser{record: record})
		}
	}
	return append(usable, marked...), nil
}

// grants reports that a token has scopes, as far as that is known.
func grants(token oauth.Token, scopes []string) bool {
	access := token.Access()
	return access.Scope == "" || !slices.ContainsFunc(scopes, func(scope string) bool { return !access.HasScope(scope) })
}

// firstOfDay returns which of n users of a clinic calls first today. All replicas agree.
func firstOfDay(clinicID string, n int) int {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, clinicID)
	return int((int64(hash.Sum32()) + time.Now().Unix()/secondsOfADay) % int64(n))
}

const secondsOfADay = 24 * 60 * 60

// clinicKnown is for how long what GET /clinic answered is not asked for again.
const clinicKnown = 24 * time.Hour

// Integrations returns the ids of the application's integrations with the clinic, for
// package reconcile. It is the one that GET /clinic names, which is asked unless the user
// connected within the last day. Where it turns out that the user has moved to another
// clinic, that is written down, and the next user is asked. Errors are those of a call.
// API section: GET /clinic.
func (c *Clinic) Integrations(ctx context.Context) ([]string, error) {
	for {
		one := c.source.first()
		if one == nil {
			return nil, c.source.exhausted()
		}
		known := one.record.Token
		if known.Clinic.IntegrationID != "" && time.Since(known.ConnectedAt) < clinicKnown {
			return []string{known.Clinic.IntegrationID}, nil
		}
		got, err := c.Client.Clinic.Get(ctx)
		if err != nil {
			return nil, err
		}
		if c.source.first() != one {
			continue // the answer may be about the user before, or the one after
		}
		now := oauth.Clinic{ID: got.ID, IntegrationID: got.IntegrationID}
		if now != known.Clinic {
			if err := c.source.app.conns.SetClinic(ctx, one.record.Key.User, now); err != nil {
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
	if one := c.source.first(); one != nil {
		return one.record.Key.User
	}
	return ""
}

// String names the clinic.
func (c *Clinic) String() string {
	return "accounts.Clinic{" + c.Environment.String() + "/" + c.ID + "}"
}

// Format prints [Clinic.String] for every verb.
func (c *Clinic) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Clinics returns the ids of the clinics of an environment that users are known to belong
// to, in the order of their bytes, beginning after the id after, and limit of them at
// most. A clinic whose users all have to authorize again is among them.
//
// Errors: [dispensary.ErrUnknownSite] where there is no application;
// [errors.ErrUnsupported] if the store is no [tokens.Lister]; the store's.
func (a *Accounts) Clinics(ctx context.Context, environment dispensary.Environment, after string, limit int) ([]string, error) {
	if _, err := a.application(environment); err != nil {
		return nil, err
	}
	lister, err := a.lister()
	if err != nil {
		return nil, err
	}
	ids, err := lister.ListClinics(ctx, environment, after, limit)
	if err != nil {
		return nil, fmt.Errorf("accounts: listing the clinics of %s: %w", environment, err)
	}
	return ids, nil
}

// clinicOf returns the function that asks the platform for the clinic of a token.
func (a *Accounts) clinicOf(app *application) func(context.Context, tokens.Key, dispensary.AccessToken) (oauth.Clinic, error) {
	return func(ctx context.Context, key tokens.Key, token dispensary.AccessToken) (oauth.Clinic, error) {
		if token.Scope != "" && !token.HasScope("clinic:read") {
			return oauth.Clinic{}, nil
		}
		client, err := a.withClinicKey(ctx, app.client.WithTokenSource(newToken{token}), key.User)
		if err != nil {
			return oauth.Clinic{}, err
		}
		got, err := client.Clinic.Get(ctx)
		if err != nil {
			return oauth.Clinic{}, err
		}
		return oauth.Clinic{ID: got.ID, IntegrationID: got.IntegrationID}, nil
	}
}

// newToken is the source of a token that is not stored yet.
type newToken struct{ token dispensary.AccessToken }

func (n newToken) Token(context.Context) (dispensary.AccessToken, error) { return n.token, nil }

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

// clinicSource is the source of the token of the first of some users who has one.
type clinicSource struct {
	accounts *Accounts
	app      *application
	none     ClinicError // for when there is no user left

	mu    sync.Mutex
	users []*clinicUser // those who may still call
}

type clinicUser struct {
	record tokens.Record
	given  dispensary.Secret // the token that was returned last; clinicSource.mu guards it
}

// Token implements [dispensary.TokenSource].
func (s *clinicSource) Token(ctx context.Context) (dispensary.AccessToken, error) {
	return s.next(ctx, func(one *clinicUser) (dispensary.AccessToken, error) { return s.of(one).Token(ctx) })
}

// Refresh implements the api package's TokenRefresher: where the user of the rejected
// token has to authorize again, the token is another user's.
func (s *clinicSource) Refresh(ctx context.Context, rejected dispensary.AccessToken) (dispensary.AccessToken, error) {
	owner := s.owner(rejected)
	return s.next(ctx, func(one *clinicUser) (dispensary.AccessToken, error) {
		if one == owner {
			return s.of(one).Refresh(ctx, rejected)
		}
		return s.of(one).Token(ctx)
	})
}

// Refused implements the api package's TokenRefresher. Later calls are those of the next
// user, if there is one.
func (s *clinicSource) Refused(ctx context.Context, token dispensary.AccessToken) {
	one := s.owner(token)
	if one == nil {
		return
	}
	s.of(one).Refused(ctx, token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.users, one); i >= 0 {
		s.users = append(slices.Delete(s.users, i, i+1), one) // the refusal may pass
	}
}

// next returns what fetch makes of the first user who need not authorize again.
func (s *clinicSource) next(ctx context.Context, fetch func(*clinicUser) (dispensary.AccessToken, error)) (dispensary.AccessToken, error) {
	for one := s.first(); one != nil; one = s.first() {
		token, err := fetch(one)
		if errors.Is(err, dispensary.ErrReauthorize) && ctx.Err() == nil {
			s.drop(one)
			continue
		}
		s.mu.Lock()
		one.given = token.Secret
		s.mu.Unlock()
		return token, err
	}
	return dispensary.AccessToken{}, s.exhausted()
}

func (s *clinicSource) exhausted() error {
	none := s.none
	return &none
}

// of returns the source of a user's own token.
func (s *clinicSource) of(one *clinicUser) *tokens.TokenSource {
	return s.accounts.source(s.app, one.record.Key.User)
}

// first returns the user whose turn it is, nil if there is none.
func (s *clinicSource) first() *clinicUser {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.users) == 0 {
		return nil
	}
	return s.users[0]
}

// drop takes a user out.
func (s *clinicSource) drop(one *clinicUser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = slices.DeleteFunc(s.users, func(other *clinicUser) bool { return other == one })
}

// owner returns the user to whom a token was given, nil if that is not known.
func (s *clinicSource) owner(token dispensary.AccessToken) *clinicUser {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.users {
		if one.given == token.Secret {
			return one
		}
	}
	return nil
}
