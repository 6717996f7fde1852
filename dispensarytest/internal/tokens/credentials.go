package tokens

import (
	"cmp"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// refusal returns the reason for which a credential of this consent is invalid at now, or "".
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

// Credentials implements dispensarytest.Tokens.
func (s *Store) Credentials() []model.Credential {
	now := s.Clock.Now()
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	all := make([]model.Credential, 0, len(s.Access)+len(s.Refresh)+len(s.Codes))
	for _, t := range s.Access {
		state := grant{Revoked: t.Grant.Revoked || t.Revoked, Obsolete: t.Grant.Obsolete}
		all = append(all, model.Credential{
			Kind: "access_token", Value: t.Value, TokenID: t.ID, User: t.Grant.User,
			Scopes: slices.Clone(t.Grant.Scopes), ExpiresAt: t.Expires, Rejection: state.refusal(now, t.Expires),
		})
	}
	for value, g := range s.Refresh {
		all = append(all, model.Credential{
			Kind: "refresh_token", Value: value, User: g.User, Scopes: slices.Clone(g.Scopes), Rejection: g.refusal(now, time.Time{}),
		})
	}
	for value, c := range s.Codes {
		open := grant{User: c.User}
		all = append(all, model.Credential{
			Kind: "code", Value: value, User: c.User, Scopes: slices.Clone(c.Scopes), ExpiresAt: c.Expires, Rejection: open.refusal(now, c.Expires),
		})
	}
	kinds := []string{"access_token", "refresh_token", "code"}
	slices.SortFunc(all, func(a, b model.Credential) int {
		return cmp.Or(
			cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			cmp.Compare(len(a.TokenID), len(b.TokenID)), // a shorter id has the lower number
			cmp.Compare(a.TokenID, b.TokenID), cmp.Compare(a.User.Email, b.User.Email), cmp.Compare(a.Value, b.Value),
		)
	})
	return all
}
