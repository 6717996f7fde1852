package tokens

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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

// Credentials lists every token and open code: access tokens by their numbers, then refresh
// tokens and codes by the address of their user. They are sorted before they are copied, as
// there may be many.
func (s *Store) Credentials(now time.Time) []model.Credential {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	all := make([]model.Credential, 0, len(s.Access)+len(s.Refresh)+len(s.Codes))
	for _, t := range slices.SortedFunc(maps.Values(s.Access), byNumber) {
		state := grant{Revoked: t.Grant.Revoked || t.Revoked, Obsolete: t.Grant.Obsolete}
		all = append(all, model.Credential{
			Kind: "access_token", Value: t.Value, TokenID: t.ID, User: t.Grant.User,
			Scopes: slices.Clone(t.Grant.Scopes), ExpiresAt: t.Expires, Refusal: state.refusal(now, t.Expires),
		})
	}
	for _, value := range byUser(s.Refresh, func(g *grant) string { return g.User.Email }) {
		g := s.Refresh[value]
		all = append(all, model.Credential{
			Kind: "refresh_token", Value: value, User: g.User, Scopes: slices.Clone(g.Scopes), Refusal: g.refusal(now, time.Time{}),
		})
	}
	for _, value := range byUser(s.Codes, func(c AuthCode) string { return c.User.Email }) {
		c := s.Codes[value]
		open := grant{User: c.User}
		all = append(all, model.Credential{
			Kind: "code", Value: value, User: c.User, Scopes: slices.Clone(c.Scopes), ExpiresAt: c.Expires, Refusal: open.refusal(now, c.Expires),
		})
	}
	return all
}

// byNumber orders access tokens: a shorter id has the lower number.
func byNumber(a, b *AccessToken) int {
	if len(a.ID) != len(b.ID) {
		return cmp.Compare(len(a.ID), len(b.ID))
	}
	return cmp.Compare(a.ID, b.ID)
}

// byUser returns the values of credentials, ordered by the addresses of their users.
func byUser[T any](credentials map[string]T, address func(T) string) []string {
	users := map[string][]string{}
	for value, c := range credentials {
		users[address(c)] = append(users[address(c)], value)
	}
	values := make([]string, 0, len(credentials))
	for _, user := range slices.Sorted(maps.Keys(users)) {
		values = append(values, slices.Sorted(slices.Values(users[user]))...)
	}
	return values
}
