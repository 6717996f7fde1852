package tokens

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// State is a copy of a token store for a snapshot.
type State struct {
	Scopes  []string
	Issued  int
	Grants  []grant
	Access  []accessState
	Refresh map[string]int // to the grant's number
	Codes   map[string]AuthCode
}

// accessState is an access token of a snapshot.
type accessState struct {
	accessFields
	Grant int // its number
	Used  bool
}

// State copies the store.
func (s *Store) State() State {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	out := State{Scopes: slices.Clone(s.Scopes), Issued: s.Issued, Refresh: make(map[string]int), Codes: maps.Clone(s.Codes)}
	numbers := make(map[*grant]int)
	number := func(g *grant) int {
		if n, known := numbers[g]; known {
			return n
		}
		numbers[g] = len(out.Grants)
		out.Grants = append(out.Grants, *g)
		return numbers[g]
	}
	for _, value := range slices.Sorted(maps.Keys(s.Access)) { // sorted, so equal states are encoded alike
		t := s.Access[value]
		out.Access = append(out.Access, accessState{t.accessFields, number(t.Grant), t.Used.Load()})
	}
	for _, value := range slices.Sorted(maps.Keys(s.Refresh)) {
		out.Refresh[value] = number(s.Refresh[value])
	}
	return out
}

// Check returns an error if a token refers to a missing consent.
func (s State) Check() error {
	known := func(grant int) bool { return grant >= 0 && grant < len(s.Grants) }
	for _, a := range s.Access {
		if !known(a.Grant) {
			return errors.New("an access token without consent")
		}
	}
	for _, grant := range s.Refresh {
		if !known(grant) {
			return errors.New("a refresh token without consent")
		}
	}
	return nil
}

// Restore replaces the store with a copied state.
func (s *Store) Restore(from State) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	grants := make([]*grant, len(from.Grants))
	for i := range grants {
		grants[i] = new(from.Grants[i])
	}
	s.Scopes, s.Issued = slices.Clone(from.Scopes), from.Issued
	s.Access, s.Refresh, s.Codes = make(map[string]*AccessToken), make(map[string]*grant), make(map[string]AuthCode)
	maps.Copy(s.Codes, from.Codes)
	for _, a := range from.Access {
		t := &AccessToken{accessFields: a.accessFields, Grant: grants[a.Grant], allowed: operations.Granted(grants[a.Grant].Scopes)}
		t.Used.Store(a.Used)
		s.Access[t.Value] = t
	}
	for value, n := range from.Refresh {
		s.Refresh[value] = grants[n]
	}
}

// rejection returns the reason for which a credential of this consent is invalid at now, or "".
func (g *grant) rejection(now, expires time.Time) string {
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
			Scopes: slices.Clone(t.Grant.Scopes), ExpiresAt: t.Expires, Rejection: state.rejection(now, t.Expires),
		})
	}
	for value, g := range s.Refresh {
		all = append(all, model.Credential{
			Kind: "refresh_token", Value: value, User: g.User, Scopes: slices.Clone(g.Scopes), Rejection: g.rejection(now, time.Time{}),
		})
	}
	for value, c := range s.Codes {
		open := grant{User: c.User}
		all = append(all, model.Credential{
			Kind: "code", Value: value, User: c.User, Scopes: slices.Clone(c.Scopes), ExpiresAt: c.Expires, Rejection: open.rejection(now, c.Expires),
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
