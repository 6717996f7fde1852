package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Credentials returns every access token, refresh token and open authorization
// code, in this order, the oldest access token first. A console shows them; a
// test rather keeps what it was given.
func (s *Server) Credentials() []model.Credential {
	return s.tokens.Credentials(s.clock.Now())
}
