package webhook_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
)

// An observer that hangs delays neither the response nor the next request of the
// connection.
func TestSlowObserverDelaysNoResponse(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	ended := make(chan error, 3)
	observer := webhook.Observer{RequestEnd: func(ctx context.Context, _ webhook.Observation) {
		<-hang
		ended <- ctx.Err()
	}}
	r := newFixture(t, func(c *webhook.HandlerConfig) { c.Observer = observer })
	mux := http.NewServeMux()
	mux.Handle("/webhooks", r)
	server := httptest.NewServer(mux)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for path, status := range map[string]int{"/webhooks": http.StatusOK, "/webhooks?again": http.StatusOK, "/webhooks?third": http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(orderBody))
		require.NoError(t, err)
		req.Header.Set(webhook.SignatureHeader, sign(secret, now, orderBody))
		response, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, status, response.StatusCode)
		assert.Equal(t, strconv.Itoa(len(body)), response.Header.Get("Content-Length"))
	}
	close(hang)
	for range 3 {
		require.NoError(t, <-ended, "the context does not end with the request")
	}
}
