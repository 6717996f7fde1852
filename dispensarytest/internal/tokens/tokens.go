// Package tokens stores the authorizations of a platform: codes, access and refresh tokens,
// the consents behind them, and the open forms and sessions of the authorize page.
package tokens

import (
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Lifetimes. API section: "Limits".
const (
	CodeLifetime  = 10 * time.Minute
	TokenLifetime = 2 * time.Hour
)

// grant is the consent of one user. Its end invalidates every token that was issued for it.
type grant struct {
	User     model.User
	Scopes   []string
	Revoked  bool
	Obsolete bool // the application has requested more scopes since
}

func (g *grant) live() bool { return !g.Revoked && !g.Obsolete }

// AccessToken is immutable except for its end, which the store's lock guards.
type AccessToken struct {
	accessFields
	Grant   *grant
	allowed []string // scopes, with group names expanded
	Used    atomic.Bool
}

type accessFields struct {
	ID         string // identifies the token in the journal
	Value      string
	ClinicID   string
	Created    time.Time
	Expires    time.Time
	Refresh    string // the refresh token issued with it
	Supersedes string // the refresh token that becomes invalid with the first use of this token
	Revoked    bool   // without its consent
}

// live reports whether the token and its consent are in force. The token may have expired.
func (t *AccessToken) live() bool { return t.Grant.live() && !t.Revoked }

func (t *AccessToken) Has(scope string) bool { return slices.Contains(t.allowed, scope) }

// AuthCode is an authorization code from the authorize page.
type AuthCode struct {
	User    model.User
	Scopes  []string
	Expires time.Time
}

// Store contains codes, tokens, and the authorize page's open forms and sessions.
type Store struct {
	Config
	Mu       sync.RWMutex
	Scopes   []string // the application's
	Issued   int
	Access   map[string]*AccessToken
	Refresh  map[string]*grant
	Codes    map[string]AuthCode
	Flows    map[string]Flow
	Sessions map[string]session
}

// Config describes the platform of a store.
type Config struct {
	Clock   *clock.Clock
	Changes *clock.Notifier
	Users   *store.Store
}

// New returns a store to restore.
func New(config Config) *Store {
	return &Store{Config: config, Flows: make(map[string]Flow), Sessions: make(map[string]session)}
}

// pair issues an access token and its refresh token. The caller holds mu.
func (s *Store) pair(g *grant, refresh, supersedes string) (*AccessToken, string) {
	s.Issued++
	now := s.Clock.Now()
	if refresh == "" {
		refresh = rand.Text()
	}
	t := &AccessToken{Grant: g, allowed: operations.Granted(g.Scopes), accessFields: accessFields{
		ID: "token-" + strconv.Itoa(s.Issued), Value: rand.Text(), ClinicID: g.User.ClinicID,
		Created: now, Expires: now.Add(TokenLifetime), Refresh: refresh, Supersedes: supersedes,
	}}
	s.Access[t.Value] = t
	s.Refresh[refresh] = g
	return t, refresh
}

// NewCode issues an authorization code.
func (s *Store) NewCode(user model.User) string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	code := rand.Text()
	s.Codes[code] = AuthCode{User: user, Scopes: s.Scopes, Expires: s.Clock.Now().Add(CodeLifetime)}
	return code
}

// Redeem exchanges a code. It works once.
func (s *Store) Redeem(code string) (*AccessToken, string, bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	c, ok := s.Codes[code]
	delete(s.Codes, code)
	if !ok || !s.Clock.Now().Before(c.Expires) {
		return nil, "", false
	}
	t, refresh := s.pair(&grant{User: c.User, Scopes: c.Scopes}, "", "")
	return t, refresh, true
}

// Renew exchanges a refresh token. If endOld is set, it expires the consent's earlier access
// tokens. That they otherwise stay valid is an assumption.
func (s *Store) Renew(refresh string, behaviors *rules.Set) (*AccessToken, string, bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	g, ok := s.Refresh[refresh]
	if !ok || !g.live() {
		return nil, "", false
	}
	for _, old := range s.Access {
		if now := s.Clock.Now(); behaviors.Is(behavior.AccessTokenAfterRefreshEnded) && old.Grant == g && now.Before(old.Expires) {
			old.Expires = now
		}
	}
	var t *AccessToken
	next := refresh
	switch {
	case behaviors.Is(behavior.RefreshRotationGrace):
		t, next = s.pair(g, "", refresh)
	case behaviors.Is(behavior.RefreshRotationImmediate):
		delete(s.Refresh, refresh)
		t, next = s.pair(g, "", "")
	default:
		t, _ = s.pair(g, refresh, "")
	}
	return t, next, true
}

// RevokeToken revokes the consent of an access or refresh token, or only the token pair if the
// behavior limits the revocation. The token may have expired. RevokeToken reports whether it
// knows the token.
func (s *Store) RevokeToken(token string, behaviors *rules.Set) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	refresh := token
	g, known := s.Refresh[token]
	if t, ok := s.Access[token]; ok {
		g, refresh, known = t.Grant, t.Refresh, true
	} else if behaviors.Is(behavior.RefreshTokenRevocationUnknown) {
		return false
	}
	switch {
	case !known:
	case behaviors.Is(behavior.RevocationReachPair):
		delete(s.Refresh, refresh)
		for _, t := range s.Access {
			t.Revoked = t.Revoked || t.Value == token || refresh == token && t.Refresh == token
		}
	default:
		g.Revoked = true
	}
	return known
}

// Check returns a bearer token, and its rejection in the words of the API's errors or "".
func (s *Store) Check(value string, now time.Time) (*AccessToken, string) {
	s.Mu.RLock()
	t, ok := s.Access[value]
	if !ok {
		s.Mu.RUnlock()
		return nil, "The access token is invalid"
	}
	live, revoked, expired := t.live(), t.Grant.Revoked || t.Revoked, !now.Before(t.Expires)
	s.Mu.RUnlock()
	switch {
	case revoked:
		return t, "The access token was revoked"
	case !live:
		return t, "The access token was invalidated"
	case expired:
		return t, "The access token expired"
	}
	if t.Supersedes != "" && t.Used.CompareAndSwap(false, true) {
		s.Mu.Lock()
		delete(s.Refresh, t.Supersedes)
		s.Mu.Unlock()
	}
	return t, ""
}

// Covers reports whether a live consent of a clinic has a scope. Assumption: a consent stays
// live after its access tokens have expired, because refresh tokens do not expire.
func (s *Store) Covers(clinicID, scope string) bool {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	for _, t := range s.Access {
		if t.live() && t.ClinicID == clinicID && t.Has(scope) {
			return true
		}
	}
	return false
}

// ApplicationScopes returns the application's scopes.
func (s *Store) ApplicationScopes() []string {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	return slices.Clone(s.Scopes)
}

// Find returns the token with a value, valid or not. It returns nil if the value is unknown.
func (s *Store) Find(value string) *AccessToken {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	return s.Access[value]
}

// Expire implements dispensarytest.Tokens.
func (s *Store) Expire(value string) error {
	defer s.lock()()
	t, known := s.Access[value]
	if !known {
		return errors.New("dispensarytest: Tokens.Expire: no such access token")
	}
	t.Expires = s.Clock.Now()
	return nil
}

// ExpireAt sets the time at which a token expires.
func (s *Store) ExpireAt(t *AccessToken, at time.Time) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	t.Expires = at
}

// EndConsent invalidates the whole consent behind a token.
func (s *Store) EndConsent(t *AccessToken) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	t.Grant.Obsolete = true
}

// lock locks the store for an action. unlock unlocks it and announces the change.
func (s *Store) lock() (unlock func()) {
	s.Mu.Lock()
	return func() {
		s.Mu.Unlock()
		s.Changes.Notify()
	}
}

// Issue implements dispensarytest.Tokens.
func (s *Store) Issue(user model.User, scopes ...string) model.Token {
	if err := operations.CheckScopes(scopes); err != nil {
		panic(err)
	}
	user = s.Users.User(user)
	defer s.lock()()
	if len(scopes) == 0 {
		scopes = s.Scopes
	}
	t, refresh := s.pair(&grant{User: user, Scopes: slices.Clone(scopes)}, "", "")
	return model.Token{
		ID: t.ID, AccessToken: t.Value, RefreshToken: refresh, Scopes: slices.Clone(scopes),
		CreatedAt: t.Created, ExpiresAt: t.Expires, User: user,
	}
}

// InvalidateAll implements dispensarytest.Tokens.
func (s *Store) InvalidateAll() {
	defer s.lock()()
	s.invalidate()
}

// Revoke implements dispensarytest.Tokens.
func (s *Store) Revoke(user model.User) {
	id := s.Users.User(user).ID
	defer s.lock()()
	for _, t := range s.Access {
		if t.Grant.User.ID == id {
			t.Grant.Revoked = true
		}
	}
	for _, g := range s.Refresh {
		if g.User.ID == id {
			g.Revoked = true
		}
	}
	maps.DeleteFunc(s.Codes, func(_ string, c AuthCode) bool { return c.User.ID == id })
}

// ExtendScopes implements dispensarytest.Tokens.
func (s *Store) ExtendScopes(scopes ...string) error {
	if err := operations.CheckScopes(scopes); err != nil {
		return err
	}
	defer s.lock()()
	merged := operations.MergeScopes(s.Scopes, scopes)
	if len(merged) > len(s.Scopes) {
		s.Scopes = merged
		s.invalidate()
	}
	return nil
}

// Values calls each for every token and code, with a description.
func (s *Store) Values(each func(what, value string)) {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	for value, token := range s.Access {
		each("the access token of "+token.ID, value)
	}
	for value := range s.Refresh {
		each("a refresh token", value)
	}
	for value := range s.Codes {
		each("an authorization code", value)
	}
}

// Flow is an authorize page with an unsent form. Its token works once, so no other site can
// send the form on the user's behalf.
type Flow struct {
	token   string
	Query   string // of the page's URL
	State   string
	User    *model.User // nil before sign-in
	expires time.Time
}

// session is a browser with a signed-in user.
type session struct {
	userID  string
	expires time.Time
}

// invalidate invalidates all consents. The caller holds mu.
func (s *Store) invalidate() {
	for _, t := range s.Access {
		t.Grant.Obsolete = true
	}
	for _, g := range s.Refresh {
		g.Obsolete = true
	}
	clear(s.Codes)
}
