package dispensarytest

import (
	"net/http"
	"strconv"

	"github.com/dispensary-go/dispensary/openapi"
)

// contractPath is where the platform serves its contract, beside the API.
const contractPath = "/openapi.yaml"

// serveContract serves the OpenAPI document of the API, for tools of other
// languages. It is no call of the API: it needs no token and leaves no trace in
// the journal.
func (s *Server) serveContract(w http.ResponseWriter) {
	document := openapi.Document()
	header := w.Header()
	header["X-Request-Id"] = []string{s.requestIDs.Next()}
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // a client that went away is no failure of ours
}
