package dispensary_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

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
			s := calltest.NewFixture(t)
			var last *resourcetest.LastBody
			s.Through(func(base http.RoundTripper) http.RoundTripper {
				last = &resourcetest.LastBody{Base: base}
				return last
			})
			_, err := calltest.All(t)[op.Name](t.Context(), s)
			require.NoError(t, err)
			if last.String() == "" {
				assert.NoFileExists(t, "testdata/requests/"+op.Name+".json")
				return
			}
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, []byte(last.String()), "", "  "))
			compareGolden(t, "testdata/requests/"+op.Name+".json", append(indented.Bytes(), '\n'))
		})
	}
}
