package tokens

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// compareCredentials orders by kind and, for access tokens, by number: a shorter
// id has the lower one.
func compareCredentials(a, b model.Credential) int {
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
	case g.Revoked:
		return "revoked"
	case g.Obsolete:
		return "invalidated"
	case !expires.IsZero() && !now.Before(expires):
		return "expired"
	}
	return ""
}

// Credentials lists every token and open code.
func (s *Store) Credentials(now time.Time) []model.Credential {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	var all []model.Credential
	for _, t := range s.Access {
		state := grant{Revoked: t.Grant.Revoked || t.Revoked, Obsolete: t.Grant.Obsolete}
		all = append(all, model.Credential{
			Kind: "access_token", Value: t.Value, TokenID: t.ID, User: t.Grant.User,
			Scopes: slices.Clone(t.Grant.Scopes), ExpiresAt: t.Expires, Refusal: state.refusal(now, t.Expires),
		})
	}
	for value, g := range s.Refresh {
		all = append(all, model.Credential{
			Kind: "refresh_token", Value: value, User: g.User, Scopes: slices.Clone(g.Scopes), Refusal: g.refusal(now, time.Time{}),
		})
	}
	for value, c := range s.Codes {
		open := grant{User: c.user}
		all = append(all, model.Credential{
			Kind: "code", Value: value, User: c.user, Scopes: slices.Clone(c.scopes), ExpiresAt: c.Expires, Refusal: open.refusal(now, c.Expires),
		})
	}
	slices.SortFunc(all, compareCredentials)
	return all
}
