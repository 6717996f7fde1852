package store

import (
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Store is everything one platform knows, and its lock.
type Store struct {
	sync.RWMutex
	World *World
}

// Look reads the world.
func (s *Store) Look(at func(w *World)) {
	s.RLock()
	defer s.RUnlock()
	at(s.World)
}

// Users returns the people who can sign in.
func (s *Store) Users() []model.User {
	s.RLock()
	defer s.RUnlock()
	var users []model.User
	for u := range s.World.Users.All() {
		users = append(users, *u)
	}
	return users
}

// ClinicName is the name of a clinic that is there.
func (s *Store) ClinicName(id string) string {
	s.RLock()
	defer s.RUnlock()
	return s.World.clinic(id).Name
}
