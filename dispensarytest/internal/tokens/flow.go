package tokens

import (
	"cmp"
	"crypto/rand"
	"time"
)

// MaxFlows is the maximum number of open authorize pages.
const MaxFlows = 1000

// OpenFlow stores a flow and returns the token of its form. A flow without a token gets a new
// one.
func (s *Store) OpenFlow(f Flow) string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	now := s.Clock.Now()
	makeRoom(s.Flows, func(f Flow) bool { return !now.Before(f.expires) })
	f.expires = now.Add(CodeLifetime)
	f.token = cmp.Or(f.token, rand.Text())
	s.Flows[f.token] = f
	return f.token
}

// makeRoom makes room for one more entry. It deletes entries for which over returns true, and
// others if needed.
func makeRoom[T any](all map[string]T, over func(T) bool) {
	if len(all) < MaxFlows {
		return
	}
	for token, one := range all {
		if len(all) >= MaxFlows || over(one) {
			delete(all, token)
		}
	}
}

// TakeFlow returns the flow of a form. The token works once.
func (s *Store) TakeFlow(token string) (Flow, bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	f, ok := s.Flows[token]
	delete(s.Flows, token)
	return f, ok && s.Clock.Now().Before(f.expires)
}

// SessionLifetime is the lifetime of a browser session: an assumption.
const SessionLifetime = 12 * time.Hour

// OpenSession stores a session and returns its token.
func (s *Store) OpenSession(userID string) string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	now := s.Clock.Now()
	makeRoom(s.Sessions, func(one session) bool { return !now.Before(one.expires) })
	token := rand.Text()
	s.Sessions[token] = session{userID: userID, expires: now.Add(SessionLifetime)}
	return token
}

// SessionUser returns the user id of a live session, or "".
func (s *Store) SessionUser(token string) string {
	s.Mu.RLock()
	defer s.Mu.RUnlock()
	if one, ok := s.Sessions[token]; ok && s.Clock.Now().Before(one.expires) {
		return one.userID
	}
	return ""
}

func (s *Store) EndSession(token string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	delete(s.Sessions, token)
}

// EndSessions signs out all users.
func (s *Store) EndSessions() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	clear(s.Sessions)
}
