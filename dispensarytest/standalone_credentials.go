package dispensarytest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Credential is a token or an authorization code as the platform knows it.
type Credential struct {
	Kind      string // "access_token", "refresh_token" or "code"
	Value     string
	TokenID   string // names an access token in the journal; empty for others
	User      User
	Scopes    []string
	ExpiresAt time.Time // zero for refresh tokens, which do not expire

	// Refusal is why the platform would refuse it now; empty while it is good.
	Refusal string
}

// Credentials returns every access token, refresh token and open authorization
// code, in this order, the oldest access token first. A console shows them; a
// test rather keeps what it was given.
func (s *Server) Credentials() []Credential {
	now := s.clock.Now()
	s.tokens.mu.RLock()
	defer s.tokens.mu.RUnlock()
	var all []Credential
	for _, t := range s.tokens.access {
		state := grant{revoked: t.grant.revoked || t.revoked, obsolete: t.grant.obsolete}
		all = append(all, Credential{
			Kind: "access_token", Value: t.value, TokenID: t.id, User: t.grant.user,
			Scopes: slices.Clone(t.grant.scopes), ExpiresAt: t.expires, Refusal: state.refusal(now, t.expires),
		})
	}
	for value, g := range s.tokens.refresh {
		all = append(all, Credential{
			Kind: "refresh_token", Value: value, User: g.user, Scopes: slices.Clone(g.scopes), Refusal: g.refusal(now, time.Time{}),
		})
	}
	for value, c := range s.tokens.codes {
		open := grant{user: c.user}
		all = append(all, Credential{
			Kind: "code", Value: value, User: c.user, Scopes: slices.Clone(c.scopes), ExpiresAt: c.expires, Refusal: open.refusal(now, c.expires),
		})
	}
	slices.SortFunc(all, compareCredentials)
	return all
}

// compareCredentials orders by kind and, for access tokens, by number: a shorter
// id has the lower one.
func compareCredentials(a, b Credential) int {
	return cmp.Or(
		cmp.Compare(strings.Index("access_token refresh_token code", a.Kind), strings.Index("access_token refresh_token code", b.Kind)),
		cmp.Compare(len(a.TokenID), len(b.TokenID)),
		cmp.Compare(a.TokenID, b.TokenID),
		cmp.Compare(a.User.Email, b.User.Email),
		cmp.Compare(a.Value, b.Value),
	)
}

// refusal is why a credential of this consent is not good at a time.
func (g *grant) refusal(now, expires time.Time) string {
	switch {
	case g.revoked:
		return "revoked"
	case g.obsolete:
		return "invalidated"
	case !expires.IsZero() && !now.Before(expires):
		return "expired"
	}
	return ""
}
