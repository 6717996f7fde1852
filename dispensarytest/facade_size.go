package dispensarytest

import (
	"errors"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// WithWorldSize makes a world of that size, which begins with the default one. The
// same seed and size make the same world, id by id. Each clinic has users of its
// own, see [Server.Users], and categories of its own; every second one is invited to
// the restricted brands.
func WithWorldSize(size model.WorldSize) Option {
	return func(s *settings) error {
		if min(size.Clinics, size.Patients, size.Products, size.Plans, size.Orders) < 0 {
			return errors.New("dispensarytest: WithWorldSize: a negative number")
		}
		s.size = size
		return nil
	}
}

// newWorld is the world that the settings ask for.
func (s settings) newWorld() *store.World {
	if s.snapshot != nil {
		return s.snapshot.fork()
	}
	return store.NewWorld(s.seed, s.region, s.compatible != 0, s.size)
}

// Scopes are the scopes of the API, and the names of the groups clinic and patients,
// which stand for all scopes of theirs. API section: "Authentication" 7.
func Scopes() []string { return operations.Scopes() }
