package accounts

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// clinicPage is the number of users that ForClinic lists at a time. Most clinics have fewer.
const clinicPage = 20

// clinicSource is the token source of a clinic, or of an environment if the clinic is "". It
// returns the token of the first usable user and lists more users as needed. Each token names its
// clinic, so a user who has connected an account of another clinic is no longer usable.
type clinicSource struct {
	app    *application
	store  tokenstore.Store
	scopes []string

	// turn contains an element while a user is chosen. It guards the next two fields.
	turn     chan struct{}
	listing  tokenstore.Listing // the next page
	complete bool               // all pages have been listed

	mu         sync.Mutex
	none       ClinicError          // the error if no user is left
	unreadable error                // last error of a record that could not be decrypted
	users      []tokens.TokenSource // users to try, in this order
	later      []tokens.TokenSource // users to try after all others
}

// newSource returns the token source of a clinic, or of the environment if clinicID is "".
func (a *Accounts) newSource(app *application, clinicID string, scopes []string) *clinicSource {
	environment := app.conns.Environment()
	listing := tokenstore.Listing{Environment: environment, ClinicID: clinicID, Limit: clinicPage}
	if clinicID == "" { // too many users to try those whose mark may be wrong
		listing.State = tokenstore.StateActive
	}
	return &clinicSource{
		app: app, store: a.config.Tokens.Store, scopes: scopes, turn: make(chan struct{}, 1),
		listing: listing, none: ClinicError{Environment: environment, ClinicID: clinicID},
	}
}

// Token implements [api.TokenSource].
func (s *clinicSource) Token(ctx context.Context) (token api.AccessToken, err error) {
	_, err = s.next(ctx, func(user tokens.TokenSource) error {
		token, err = s.check(ctx, user, user.Token)
		return err
	})
	return token, err
}

// Refresh implements [api.TokenRefresher]. If the user has to authorize again, or gets no
// other token now, it returns a token of another user.
func (s *clinicSource) Refresh(ctx context.Context, rejected api.AccessToken) (token api.AccessToken, err error) {
	user, err := s.next(ctx, func(user tokens.TokenSource) error {
		token, err = s.check(ctx, user, func(ctx context.Context) (api.AccessToken, error) { return user.Refresh(ctx, rejected) })
		return err
	})
	if err != nil || token.Secret != rejected.Secret {
		return token, err
	}
	s.putOff(user)
	return s.Token(ctx)
}

// next calls work for the current user. If an error concerns only this user, it continues with
// the next one. It returns the last user.
func (s *clinicSource) next(ctx context.Context, work func(tokens.TokenSource) error) (user tokens.TokenSource, err error) {
	rejected := map[tokens.TokenSource]bool{}
	for {
		if user, err = s.current(ctx); err != nil {
			return user, err
		}
		err = work(user)
		switch {
		case err == nil, ctx.Err() != nil:
			return user, err
		case s.drop(user, err):
		case isRejected(err) && !rejected[user]:
			rejected[user] = true
			s.putOff(user)
		default:
			return user, err
		}
	}
}

// Errors of a token that must not be used for the clinic.
var (
	errOtherClinic  = errors.New("accounts: the user's token is for another clinic")
	errMissingScope = errors.New("accounts: the user's token lacks a scope")
)

// check returns the token that fetch returns, if it may call for the clinic. The token acts for
// the clinic, because its user may change during the work of a client. A token in memory may be
// older than the listed account of its user, so check reads the record of a user of another clinic.
func (s *clinicSource) check(
	ctx context.Context, user tokens.TokenSource, fetch func(context.Context) (api.AccessToken, error),
) (api.AccessToken, error) {
	token, err := fetch(ctx)
	if err == nil && s.isOther(token) {
		token, err = user.Reload(ctx)
	}
	switch {
	case err != nil:
		return api.AccessToken{}, err
	case s.isOther(token):
		s.app.conns.Client().Logger().LogAttrs(ctx, slog.LevelWarn, "accounts: the clinic in a user's encrypted record differs from its row",
			slog.String("environment", user.Key().Environment.String()), slog.String("user", user.Key().User), slog.String("clinic", s.none.ClinicID))
		return api.AccessToken{}, errOtherClinic
	case !grants(token, s.scopes):
		return api.AccessToken{}, errMissingScope
	}
	token.Account = api.Account{ClinicID: s.none.ClinicID}
	return token, nil
}

// isOther reports whether a token acts for another clinic.
func (s *clinicSource) isOther(token api.AccessToken) bool {
	return s.none.ClinicID != "" && token.Account.ClinicID != s.none.ClinicID
}

// drop removes a user if err concerns only this user, and reports whether it does.
func (s *clinicSource) drop(user tokens.TokenSource, err error) bool {
	var must *tokens.ReauthorizeError
	unknown := errors.As(err, &must) && must.Reason == tokenstore.ReasonNotConnected || errors.Is(err, errOtherClinic)
	missing, unreadable := errors.Is(err, errMissingScope), errors.Is(err, tokenstore.ErrUnreadable)
	if !unknown && !missing && !unreadable && !errors.Is(err, dispensary.ErrReauthorize) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch removed := s.remove(user); {
	case !removed: // by another call
	case missing:
		s.none.MissingScope++
	case unreadable:
		s.unreadable = err
		fallthrough
	case unknown:
		s.none.Users--
	}
	return true
}

// remove removes a user from users and reports whether it was there. The caller has locked mu.
func (s *clinicSource) remove(user tokens.TokenSource) bool {
	before := len(s.users)
	s.users = slices.DeleteFunc(slices.Clone(s.users), func(other tokens.TokenSource) bool { return other == user })
	return len(s.users) < before
}

// putOff moves a user behind the others, because the rejection may be temporary.
func (s *clinicSource) putOff(user tokens.TokenSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.remove(user) {
		s.later = append(s.later, user)
	}
}

// isRejected reports whether the platform rejected a user's refresh token or call. Other users
// may call although the user is not marked.
func isRejected(err error) bool {
	var response *dispensary.Error
	if errors.As(err, new(*oauth.ConfigError)) {
		return false
	}
	for cause := err; errors.As(cause, &response); cause = response.Unwrap() { // of the call and of the refresh
		if response.Code == "invalid_grant" {
			return true
		}
	}
	return errors.Is(err, api.ErrUnauthorized) || errors.Is(err, api.ErrForbidden)
}

// current returns the current user. It lists more users if necessary.
func (s *clinicSource) current(ctx context.Context) (tokens.TokenSource, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return tokens.TokenSource{}, ctx.Err()
	}
	for {
		s.mu.Lock()
		users := s.users
		s.mu.Unlock()
		if len(users) > 0 {
			return users[0], nil
		}
		if err := s.more(ctx); err != nil {
			return tokens.TokenSource{}, err
		}
	}
}

// more sets users to the next page. After the last page, it sets users to later.
func (s *clinicSource) more(ctx context.Context) error {
	if !s.complete {
		return s.list(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users, s.later = s.later, nil
	switch {
	case len(s.users) > 0:
		return nil
	case s.unreadable != nil:
		return s.unreadable
	}
	none := s.none
	return &none
}

// list loads the next page. The list is not encrypted, so it proposes users but does not
// decide about them. Users marked as having to authorize again come last, because the mark may
// be wrong.
func (s *clinicSource) list(ctx context.Context) error {
	records, err := s.store.List(ctx, s.listing)
	if err != nil {
		return fmt.Errorf("accounts: listing the users of %s: %w", s.none.place(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(records)
	s.none.Users += n
	for i := range n {
		record := records[(firstOfDay(s.listing.ClinicID, n)+i)%n]
		user := s.app.conns.TokenSource(record.Key.User)
		switch {
		case !grants(record.Token.Access(), s.scopes):
			s.none.MissingScope++
		case s.app.conns.Usable(record) != nil:
			s.later = append(s.later, user)
		default:
			s.users = append(s.users, user)
		}
	}
	s.complete = n < s.listing.Limit
	if n > 0 {
		s.listing.After = records[n-1].Key.User
	}
	return nil
}

// grants reports whether a token has all scopes. It is true if the token's scopes are unknown.
func grants(token api.AccessToken, scopes []string) bool {
	return token.Scope == "" || !slices.ContainsFunc(scopes, func(scope string) bool { return !token.HasScope(scope) })
}

// firstOfDay returns the index of today's first user, out of n users of a clinic. All replicas
// agree.
func firstOfDay(clinicID string, n int) int {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, clinicID)
	const day = 24 * 60 * 60
	return int((int64(hash.Sum32()) + time.Now().Unix()/day) % int64(n))
}
