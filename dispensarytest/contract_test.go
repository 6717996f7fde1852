package dispensarytest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/openapi"
)

func TestContractIsServed(t *testing.T) {
	t.Parallel()
	for _, opt := range []Option{WithInMemory(), WithTLS(), WithAddr("127.0.0.1:0")} {
		b := start(t, opt)
		resp, err := b.fake.HTTPClient().Get(b.fake.origin + "/openapi.yaml")
		assert.Equal(t, string(openapi.Document()), bodyOf(t, resp, err))
		assert.Equal(t, "application/yaml", resp.Header.Get("Content-Type"))
		assert.NotEmpty(t, resp.Header.Get("X-Request-Id"))
		assert.Zero(t, b.fake.Journal().Len(), "it is no call of the API")
		b.get("/openapi.yaml").refused(404, "Not Found")
		resp, err = b.fake.HTTPClient().Post(b.fake.origin+"/openapi.yaml", "text/plain", http.NoBody)
		assert.Contains(t, bodyOf(t, resp, err), "Not Found")
	}
}
