package dispensary_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/calls"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// lastBody is a transport that keeps the body of the last request.
type lastBody struct {
	base http.RoundTripper
	body []byte
}

func (l *lastBody) RoundTrip(r *http.Request) (*http.Response, error) {
	l.body = nil
	if r.Body != nil {
		l.body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(l.body))
	}
	return l.base.RoundTrip(r)
}

// What the client sends in bodies stands in testdata/requests, one file for each
// operation that has one. Tokens are left out: they are secrets.
func TestRequestBodies(t *testing.T) {
	t.Parallel()
	for _, op := range operation.All() {
		if op.Read() || strings.HasPrefix(op.Name, "oauth.") {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			t.Parallel()
			s := calls.NewScene(t)
			var last *lastBody
			s.Through(func(base http.RoundTripper) http.RoundTripper {
				last = &lastBody{base: base}
				return last
			})
			_, err := calls.All(t)[op.Name](t.Context(), s)
			require.NoError(t, err)
			if last.body == nil {
				assert.NoFileExists(t, "testdata/requests/"+op.Name+".json")
				return
			}
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, last.body, "", "  "))
			compareGolden(t, "testdata/requests/"+op.Name+".json", append(indented.Bytes(), '\n'))
		})
	}
}
