package dispensarytest

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
)

// Lifetimes. API section: "Limits".
const (
	codeLifetime  = 10 * time.Minute
	tokenLifetime = 2 * time.Hour
)

// RefreshRotation is what a refresh does to the refresh token it used.
type RefreshRotation int

const (
	// RotationNone keeps the refresh token. The API says only that it does not
	// expire.
	RotationNone RefreshRotation = iota

	// RotationGrace answers with a new refresh token; the old one stays valid
	// until the new access token is first used. Assumption: seen in the field.
	RotationGrace

	// RotationImmediate answers with a new refresh token and ends the old one
	// at once. Assumption: the strictest reading.
	RotationImmediate
)

// grant is one user's consent. Every token that came from it ends with it.
type grant struct {
	user     User
	scopes   []string
	revoked  bool
	obsolete bool // the application asked for more since
}

func (g *grant) live() bool { return !g.revoked && !g.obsolete }

// accessToken never changes but for its end, which the store's lock guards.
type accessToken struct {
	id       string // names the token in the journal
	value    string
	grant    *grant
	allowed  []string // scopes, group names opened up
	clinicID string
	created  time.Time
	refresh  string // the refresh token that came with it
	expires  time.Time
	revoked  bool // by itself, without its consent

	used       atomic.Bool
	supersedes string // the refresh token that ends with this token's first use
}

// live reports that neither the token nor its consent was ended; it may have
// expired.
func (t *accessToken) live() bool { return t.grant.live() && !t.revoked }

func (t *accessToken) has(scope string) bool { return slices.Contains(t.allowed, scope) }

// authCode is what the browser brings back from the authorize page.
type authCode struct {
	user    User
	scopes  []string
	expires time.Time
}

// tokenStore holds codes, tokens, and the authorize page's open forms and sessions.
type tokenStore struct {
	mu       sync.RWMutex
	clock    *clock.Clock
	rotation RefreshRotation
	scopes   []string // the application's
	issued   int
	access   map[string]*accessToken
	refresh  map[string]*grant
	codes    map[string]authCode
	flows    map[string]flow
	sessions map[string]session
}

func newTokenStore(clock *clock.Clock, rotation RefreshRotation, scopes []string) *tokenStore {
	return &tokenStore{
		clock: clock, rotation: rotation, scopes: scopes,
		access:   make(map[string]*accessToken),
		refresh:  make(map[string]*grant),
		codes:    make(map[string]authCode),
		flows:    make(map[string]flow),
		sessions: make(map[string]session),
	}
}

// pair issues an access token and its refresh token. The caller holds mu.
func (s *tokenStore) pair(g *grant, refresh, supersedes string) (*accessToken, string) {
	s.issued++
	now := s.clock.Now()
	t := &accessToken{
		id: "token-" + strconv.Itoa(s.issued), value: rand.Text(), grant: g,
		allowed: granted(g.scopes), clinicID: g.user.clinicID,
		created: now, expires: now.Add(tokenLifetime), supersedes: supersedes,
	}
	if refresh == "" {
		refresh = rand.Text()
	}
	t.refresh = refresh
	s.access[t.value] = t
	s.refresh[refresh] = g
	return t, refresh
}

// newCode issues an authorization code.
func (s *tokenStore) newCode(user User) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := rand.Text()
	s.codes[code] = authCode{user: user, scopes: s.scopes, expires: s.clock.Now().Add(codeLifetime)}
	return code
}

// redeem exchanges a code; it works once.
func (s *tokenStore) redeem(code string) (*accessToken, string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.codes[code]
	delete(s.codes, code)
	if !ok || !s.clock.Now().Before(c.expires) {
		return nil, "", false
	}
	t, refresh := s.pair(&grant{user: c.user, scopes: c.scopes}, "", "")
	return t, refresh, true
}

// renew exchanges a refresh token, and can end the access tokens before; that
// they stay good otherwise is an assumption.
func (s *tokenStore) renew(refresh string, endOld bool) (*accessToken, string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.refresh[refresh]
	if !ok || !g.live() {
		return nil, "", false
	}
	for _, old := range s.access {
		if now := s.clock.Now(); endOld && old.grant == g && now.Before(old.expires) {
			old.expires = now
		}
	}
	var t *accessToken
	next := refresh
	switch s.rotation {
	case RotationGrace:
		t, next = s.pair(g, "", refresh)
	case RotationImmediate:
		delete(s.refresh, refresh)
		t, next = s.pair(g, "", "")
	default:
		t, _ = s.pair(g, refresh, "")
	}
	return t, next, true
}

// revoke ends the consent behind an access or refresh token, or in a reading only
// the two; an expired token will do. It reports whether the token is known.
func (s *tokenStore) revoke(token string, reads *readings) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	refresh := token
	g, known := s.refresh[token]
	if t, ok := s.access[token]; ok {
		g, refresh, known = t.grant, t.refresh, true
	} else if reads.keepRefreshTokens {
		return false
	}
	switch {
	case !known:
	case reads.revokePair:
		delete(s.refresh, refresh)
		for _, t := range s.access {
			t.revoked = t.revoked || t.value == token || refresh == token && t.refresh == token
		}
	default:
		g.revoked = true
	}
	return known
}

// check tells whether a bearer token is good, in the words of the API's errors.
func (s *tokenStore) check(value string, now time.Time) (*accessToken, string) {
	s.mu.RLock()
	t, ok := s.access[value]
	if !ok {
		s.mu.RUnlock()
		return nil, "The access token is invalid"
	}
	live, revoked, expired := t.live(), t.grant.revoked || t.revoked, !now.Before(t.expires)
	s.mu.RUnlock()
	switch {
	case revoked:
		return t, "The access token was revoked"
	case !live:
		return t, "The access token was invalidated"
	case expired:
		return t, "The access token expired"
	}
	if t.supersedes != "" && t.used.CompareAndSwap(false, true) {
		s.mu.Lock()
		delete(s.refresh, t.supersedes)
		s.mu.Unlock()
	}
	return t, ""
}

// covers reports that some live consent of a clinic has a scope. Refresh tokens do
// not expire, so a consent stays live when its access tokens have expired: an
// assumption.
func (s *tokenStore) covers(clinicID, scope string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.access {
		if t.live() && t.clinicID == clinicID && t.has(scope) {
			return true
		}
	}
	return false
}

// authenticate checks the bearer token, the clinic key if one is sent, and the
// operation's scope.
func (c *call) authenticate() error {
	scheme, value, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || value == "" {
		return noToken()
	}
	token, refusal := c.srv.tokens.check(value, c.now)
	if token != nil {
		c.record.TokenID, c.record.UserID = token.id, token.grant.user.ID
	}
	if refusal != "" {
		return unauthorized(refusal)
	}
	c.token = token
	if err := c.checkClinicKey(); err != nil {
		return err
	}
	if c.op.scope == "" {
		return nil
	}
	c.record.Scope = ScopeDecision{Required: c.op.needs, Granted: token.has(c.op.scope)}
	if !c.record.Scope.Granted {
		return missingScope(c.op.scope)
	}
	return nil
}

// checkClinicKey needs the header only where a reading does, and checks it
// wherever it is sent.
func (c *call) checkClinicKey() error {
	key := c.r.Header.Get("X-SVC-Clinic-Key")
	needed := c.reads.keyNeeded == keyAlways || c.reads.keyNeeded == keyForClinic && c.op.id == "clinic.get"
	switch {
	case key != "":
		return c.srv.useClinicKey(key, c.token.clinicID)
	case needed:
		return problemOf(http.StatusUnauthorized, "The clinic key is missing")
	}
	return nil
}

// useClinicKey checks a clinic key. The first request with a valid one
// activates the integration, and is the one API call that makes an event.
func (s *Server) useClinicKey(key, clinicID string) error {
	s.mu.RLock()
	found := s.world.integrationByKey(key)
	s.mu.RUnlock()
	switch {
	case found == nil || found.clinicID != clinicID:
		return problemOf(http.StatusUnauthorized, "The clinic key is invalid")
	case found.revoked:
		return problemOf(http.StatusUnauthorized, "The clinic key was revoked")
	case found.activated.IsZero():
		s.activate(found.id)
	}
	return nil
}
