package tokens

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
)

// State is what a token store knows, all of it copied.
type State struct {
	Scopes  []string
	issued  int
	grants  []grant
	access  []accessState
	refresh map[string]int // to the grant's number
	Codes   map[string]AuthCode
}

type accessState struct {
	token   *AccessToken // its grant and use aside
	grant   int
	expires time.Time
	used    bool
	revoked bool
}

// State copies the store.
func (s *Store) State() State {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	out := State{Scopes: slices.Clone(s.Scopes), issued: s.Issued, refresh: make(map[string]int), Codes: maps.Clone(s.Codes)}
	numbers := make(map[*grant]int)
	number := func(g *grant) int {
		if n, known := numbers[g]; known {
			return n
		}
		numbers[g] = len(out.grants)
		out.grants = append(out.grants, *g)
		return numbers[g]
	}
	for _, value := range slices.Sorted(maps.Keys(s.Access)) { // in an order of their own: equal states are written alike
		t := s.Access[value]
		out.access = append(out.access, accessState{token: t, grant: number(t.Grant), expires: t.Expires, used: t.Used.Load(), revoked: t.Revoked})
	}
	for _, value := range slices.Sorted(maps.Keys(s.Refresh)) {
		out.refresh[value] = number(s.Refresh[value])
	}
	return out
}

// Restore puts a copied state in place.
func (s *Store) Restore(from State) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	grants := make([]*grant, len(from.grants))
	for i := range grants {
		grants[i] = new(from.grants[i])
	}
	s.Scopes, s.Issued, s.Codes = slices.Clone(from.Scopes), from.issued, maps.Clone(from.Codes)
	s.Access, s.Refresh = make(map[string]*AccessToken), make(map[string]*grant)
	for _, a := range from.access {
		t := &AccessToken{
			ID: a.token.ID, Value: a.token.Value, Grant: grants[a.grant], allowed: a.token.allowed, ClinicID: a.token.ClinicID,
			Created: a.token.Created, refresh: a.token.refresh, Expires: a.expires, Revoked: a.revoked, supersedes: a.token.supersedes,
		}
		t.Used.Store(a.used)
		s.Access[t.Value] = t
	}
	for value, n := range from.refresh {
		s.Refresh[value] = grants[n]
	}
}

func (s State) File() TokensFile {
	file := TokensFile{Scopes: s.Scopes, Issued: s.issued, Refresh: s.refresh, Codes: make(map[string]codeFile, len(s.Codes))}
	for _, g := range s.grants {
		file.Grants = append(file.Grants, grantFile{store.FileUser(g.User), g.Scopes, g.Revoked, g.Obsolete})
	}
	for _, a := range s.access {
		file.Access = append(file.Access, accessFile{
			ID: a.token.ID, Value: a.token.Value, ClinicID: a.token.ClinicID, Supersedes: a.token.supersedes, Refresh: a.token.refresh,
			Grant: a.grant, Created: a.token.Created, Expires: a.expires, Used: a.used, Revoked: a.revoked,
		})
	}
	for value, c := range s.Codes {
		file.Codes[value] = codeFile{store.FileUser(c.user), c.scopes, c.Expires}
	}
	return file
}

type TokensFile struct {
	Scopes  []string
	Issued  int
	Grants  []grantFile
	Access  []accessFile
	Refresh map[string]int
	Codes   map[string]codeFile
}

func (f TokensFile) State() (State, error) {
	state := State{Scopes: f.Scopes, issued: f.Issued, refresh: f.Refresh, Codes: make(map[string]AuthCode, len(f.Codes))}
	for _, g := range f.Grants {
		state.grants = append(state.grants, grant{User: g.User.Row(), Scopes: g.Scopes, Revoked: g.Revoked, Obsolete: g.Obsolete})
	}
	known := func(grant int) bool { return grant >= 0 && grant < len(state.grants) }
	for _, a := range f.Access {
		if !known(a.Grant) {
			return state, errors.New("a token without consent")
		}
		state.access = append(state.access, accessState{grant: a.Grant, expires: a.Expires, used: a.Used, revoked: a.Revoked, token: &AccessToken{
			ID: a.ID, Value: a.Value, allowed: operations.Granted(f.Grants[a.Grant].Scopes), ClinicID: a.ClinicID,
			Created: a.Created, refresh: a.Refresh, supersedes: a.Supersedes,
		}})
	}
	for _, grant := range f.Refresh {
		if !known(grant) {
			return state, errors.New("a refresh token without consent")
		}
	}
	for value, c := range f.Codes {
		state.Codes[value] = AuthCode{user: c.User.Row(), scopes: c.Scopes, Expires: c.Expires}
	}
	return state, nil
}

type grantFile struct {
	User              store.UserFile
	Scopes            []string
	Revoked, Obsolete bool
}

type accessFile struct {
	ID, Value, ClinicID, Supersedes string
	Refresh                         string `json:",omitempty"`
	Grant                           int
	Created, Expires                time.Time
	Used                            bool
	Revoked                         bool `json:",omitempty"`
}

type codeFile struct {
	User    store.UserFile
	Scopes  []string
	Expires time.Time
}
