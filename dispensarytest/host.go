package dispensarytest

import (
	"fmt"
	"net/http"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Host puts a server of the integrator's onto the platform's network without a
// socket: [Browser], [Server.HTTPClient] and the webhook sender reach the handler
// under the origin, for example "https://ehr.example.com". A handler that is
// hosted already is replaced.
//
// Each request runs on a goroutine of its own, whose panics look like a dropped
// connection to the other side. Host works with every kind of platform; together
// with [WithInMemory] a whole integration runs inside testing/synctest.
func (s *Server) Host(origin string, handler http.Handler) error {
	if err := s.net.Host(origin, handler); err != nil {
		return fmt.Errorf("dispensarytest: Host(%q): %w", origin, err)
	}
	return nil
}

// receiverOrigin is where [Server.RegisterWebhookHandler] hosts a handler.
const receiverOrigin = "https://receiver.dispensary.test"

// memoryOrigin is where a platform without sockets stands. The names are
// reserved: no resolver knows them.
func memoryOrigin(region model.Region) string {
	if region == model.Canada {
		return "https://platform.ca.dispensary.test"
	}
	return "https://platform.us.dispensary.test"
}
