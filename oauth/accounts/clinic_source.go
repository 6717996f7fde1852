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

// clinicSource is the token source of a clinic. It returns the token of the first usable user
// and lists more users as needed.
type clinicSource struct {
	app    *application
	store  tokenstore.Store
	scopes []string

	// turn contains an element while users are listed or opened. It guards the following
	// fields.
	turn       chan struct{}
	listing    tokenstore.Listing // the next page
	complete   bool               // all pages have been listed
	unreadable error              // last error of a record that could not be decrypted

	mu    sync.Mutex
	none  ClinicError   // the error if no user is left
	users []*clinicUser // users to try, in this order
	later []*clinicUser // users to try after all others
}

// clinicUser is a candidate for the calls of a clinic.
type clinicUser struct {
	key tokenstore.Key

	// clinicSource.turn guards the following fields.
	record tokenstore.Record // decrypted record
	opened bool              // record is set
	bound  bool              // the user's token has matched record

	given dispensary.Secret // last returned token, guarded by clinicSource.mu
}

func newClinicSource(app *application, store tokenstore.Store, environment dispensary.Environment, clinicID string, scopes []string) *clinicSource {
	return &clinicSource{
		app: app, store: store, scopes: scopes, turn: make(chan struct{}, 1),
		listing: tokenstore.Listing{Environment: environment, ClinicID: clinicID, Limit: clinicPage},
		none:    ClinicError{Environment: environment, ClinicID: clinicID},
	}
}

// Token implements [api.TokenSource].
func (s *clinicSource) Token(ctx context.Context) (api.AccessToken, error) {
	return s.next(ctx, func(one *clinicUser) (api.AccessToken, error) { return s.of(one).Token(ctx) })
}

// Refresh implements the api package's TokenRefresher. If the user of the rejected token has
// to authorize again, or gets no other token now, it returns a token of another user.
func (s *clinicSource) Refresh(ctx context.Context, rejected api.AccessToken) (api.AccessToken, error) {
	owner := s.owner(rejected)
	token, err := s.next(ctx, func(one *clinicUser) (api.AccessToken, error) {
		if one == owner {
			return s.of(one).Refresh(ctx, rejected)
		}
		return s.of(one).Token(ctx)
	})
	if err != nil || token.Secret != rejected.Secret {
		return token, err
	}
	s.putOff(owner)
	return s.Token(ctx)
}

// putOff moves a user behind the others, because the rejection may be temporary.
func (s *clinicSource) putOff(one *clinicUser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.users, one); i >= 0 {
		s.users, s.later = slices.Delete(s.users, i, i+1), append(s.later, one)
	}
}

// next returns the result of fetch for the first user who need not authorize again.
func (s *clinicSource) next(ctx context.Context, fetch func(*clinicUser) (api.AccessToken, error)) (api.AccessToken, error) {
	rejected := map[*clinicUser]bool{}
	for {
		one, _, err := s.current(ctx)
		if err != nil {
			return api.AccessToken{}, err
		}
		token, err := fetch(one)
		if err == nil {
			token, err = s.bind(ctx, one, token)
		}
		switch {
		case needsOtherUser(err) && ctx.Err() == nil:
			s.drop(one)
			continue
		case isRejected(err) && !rejected[one]:
			rejected[one] = true
			s.putOff(one)
			continue
		}
		s.mu.Lock()
		one.given = token.Secret
		s.mu.Unlock()
		return token, err
	}
}

// errOtherClinic means that the decrypted record of a user does not permit calls for the
// clinic.
var errOtherClinic = errors.New("accounts: the user's record does not permit calls for the clinic")

// needsOtherUser reports whether err concerns only one user.
func needsOtherUser(err error) bool {
	return errors.Is(err, dispensary.ErrReauthorize) || errors.Is(err, errOtherClinic)
}

// isRejected reports whether the platform rejected a user's refresh token. Package
// oauth/tokens marks the user only after the second rejection, but other users may call until
// then.
func isRejected(err error) bool {
	var answer *dispensary.Error
	return errors.As(err, &answer) && answer.Code == "invalid_grant"
}

// current returns the first user whose decrypted record names the clinic, and that record. It
// lists more users if necessary.
func (s *clinicSource) current(ctx context.Context) (one *clinicUser, record tokenstore.Record, err error) {
	if err := s.begin(ctx); err != nil {
		return nil, tokenstore.Record{}, err
	}
	defer func() { <-s.turn }()
	for err == nil {
		one = s.first()
		switch {
		case one == nil:
			err = s.more(ctx)
		case one.opened:
			return one, one.record, nil
		default:
			if err = s.open(ctx, one); needsOtherUser(err) {
				s.drop(one)
				err = nil
			}
		}
	}
	return nil, tokenstore.Record{}, err
}

// begin waits for the turn.
func (s *clinicSource) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
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
		return fmt.Errorf("accounts: listing the users of clinic %s of %s: %w", s.listing.ClinicID, s.listing.Environment, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(records)
	s.none.Users += n
	for i := range n {
		record := records[(firstOfDay(s.listing.ClinicID, n)+i)%n]
		one := &clinicUser{key: record.Key}
		switch {
		case !grants(record.Token, s.scopes):
			s.none.MissingScope++
		case s.app.conns.Usable(record) != nil:
			s.later = append(s.later, one)
		default:
			s.users = append(s.users, one)
		}
	}
	s.complete = n < s.listing.Limit
	if n > 0 {
		s.listing.After = records[n-1].Key.User
	}
	return nil
}

// open decrypts the record of a user and verifies it.
func (s *clinicSource) open(ctx context.Context, one *clinicUser) error {
	record, err := s.app.conns.Record(ctx, one.key.User)
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord):
		return s.reject(false)
	case errors.Is(err, tokenstore.ErrUnreadable):
		s.unreadable = err
		return s.reject(false)
	case err != nil:
		return err
	case record.Token.Clinic.ID != s.none.ClinicID:
		s.app.conns.Client().Logger().LogAttrs(ctx, slog.LevelWarn, "accounts: the clinic in a user's encrypted record differs from its row",
			slog.String("environment", one.key.Environment.String()), slog.String("user", one.key.User), slog.String("clinic", s.none.ClinicID))
		return s.reject(false)
	case !grants(record.Token, s.scopes):
		return s.reject(true)
	}
	one.record, one.opened = record, true
	return nil
}

// reject corrects the counts of the [ClinicError] and returns errOtherClinic.
func (s *clinicSource) reject(ofClinic bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ofClinic {
		s.none.MissingScope++
	} else {
		s.none.Users--
	}
	return errOtherClinic
}

// maxReads is the number of reads after which bind fails, if others keep changing the record.
const maxReads = 3

// bind ensures that the token of a user's first call belongs to the verified record. The token
// in memory may be older, from an account that the user has since replaced.
func (s *clinicSource) bind(ctx context.Context, one *clinicUser, token api.AccessToken) (api.AccessToken, error) {
	if err := s.begin(ctx); err != nil {
		return api.AccessToken{}, err
	}
	defer func() { <-s.turn }()
	for try := 1; !one.bound && token.Secret != one.record.Token.AccessToken; try++ {
		if try > maxReads {
			return api.AccessToken{}, fmt.Errorf("accounts: the token of %s was replaced %d times in a row", one.key, try)
		}
		var err error
		if token, err = s.of(one).Reload(ctx); err != nil {
			return api.AccessToken{}, err
		}
		if err := s.open(ctx, one); err != nil {
			return api.AccessToken{}, err
		}
	}
	one.bound = true
	return token, nil
}

// of returns the token source of one user.
func (s *clinicSource) of(one *clinicUser) tokens.TokenSource {
	return s.app.conns.TokenSource(one.key.User)
}

// first returns the current user, or nil if there is none.
func (s *clinicSource) first() *clinicUser {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.users) == 0 {
		return nil
	}
	return s.users[0]
}

// user returns the ID of the current user, or "" if there is none.
func (s *clinicSource) user() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, left := range [][]*clinicUser{s.users, s.later} {
		if len(left) > 0 {
			return left[0].key.User
		}
	}
	return ""
}

// drop removes a user.
func (s *clinicSource) drop(one *clinicUser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = slices.DeleteFunc(s.users, func(other *clinicUser) bool { return other == one })
}

// owner returns the user of a token, or nil if unknown.
func (s *clinicSource) owner(token api.AccessToken) *clinicUser {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range slices.Concat(s.users, s.later) {
		if one.given == token.Secret {
			return one
		}
	}
	return nil
}

// grants reports whether a token has all scopes. It is true if the token's scopes are unknown.
func grants(token oauth.Token, scopes []string) bool {
	access := token.Access()
	return access.Scope == "" || !slices.ContainsFunc(scopes, func(scope string) bool { return !access.HasScope(scope) })
}

// firstOfDay returns the index of today's first user, out of n users of a clinic. All replicas
// agree.
func firstOfDay(clinicID string, n int) int {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, clinicID)
	return int((int64(hash.Sum32()) + time.Now().Unix()/secondsOfADay) % int64(n))
}

const secondsOfADay = 24 * 60 * 60
