package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsSeen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	spans, metrics, found := strings.Cut(out.String(), "\n\nMetrics:\n")
	require.True(t, found)
	assert.Equal(t, strings.TrimSpace(`
Spans:
  clinic.get  http.response.status_code=200
    oauth.refresh  dispensary.oauth.refresh.outcome=refreshed
      oauth.token  http.response.status_code=200
        POST /oauth/token  http.response.status_code=200
    GET /clinic  http.response.status_code=503 error.type=503
    GET /clinic  http.response.status_code=200 dispensary.retry.reason=server
  receive webhook  http.response.status_code=200 dispensary.webhook.outcome=accepted
    accept order.placed  dispensary.webhook.outcome=accepted
  process order.placed  dispensary.attempt.result=handled
    linked to "accept order.placed"
    orders.get  http.response.status_code=200
      GET /clinic/orders/{id}  http.response.status_code=200`), spans)
	for _, want := range []string{
		"dispensary.client.retries 1  dispensary.retry.reason=server",
		"http.client.request.duration 1 times  http.response.status_code=503 error.type=503",
		"dispensary.oauth.refresh.duration 1 times  dispensary.oauth.refresh.outcome=refreshed",
		"messaging.process.duration 1 times  dispensary.attempt.result=handled",
	} {
		assert.Contains(t, metrics, "  "+want+"\n")
	}
}
