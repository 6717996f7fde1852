package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/people"
)

// Platform is the second actor: the people who use the platform itself.
type Platform struct{ *people.People }

// Platform returns the platform's own users.
func (s *Server) Platform() *Platform { return &Platform{s.people} }
