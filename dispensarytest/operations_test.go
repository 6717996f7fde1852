package dispensarytest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
)

// exemplar is a request that succeeds.
type exemplar struct {
	op   operations.Operation
	path string
	body any
}

// CallRequests returns a function that returns the request and the body of the client's call of an
// operation. An external test sets it, because package calltest imports this package.
var CallRequests func(t testing.TB, fake *Server) func(operation string) (request *http.Request, body []byte)

// exemplars returns one request for every operation except the token endpoint and the page. It
// has no filters. Each request succeeds on a fresh platform, some only once.
func exemplars(t testing.TB, b *browser) map[string]exemplar {
	t.Helper()
	found, requestOf := make(map[string]exemplar), CallRequests(t, b.fake)
	for _, op := range operations.All() {
		if op.Open {
			continue
		}
		request, body := requestOf(op.ID)
		e := exemplar{op: op, path: strings.TrimPrefix(request.URL.String(), b.fake.Site().BaseURL)}
		e.path, _, _ = strings.Cut(e.path, "?")
		if op.ID == "metadata.list" {
			e.path += "?id=ehr-1001"
		}
		if body != nil {
			require.NoError(t, json.Unmarshal(body, &e.body))
		}
		found[op.ID] = e
	}
	return found
}

func merged(body map[string]any, name string, value any) map[string]any {
	changed := map[string]any{}
	maps.Copy(changed, body)
	changed[name] = value
	return changed
}
