package webhook_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
)

// A hanging observer must delay neither the response nor the next request of the connection.
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
	mux.Handle("/", webhook.NotFoundHandler(nil, observer))
	server := httptest.NewServer(mux)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for path, status := range map[string]int{"/webhooks": http.StatusOK, "/webhooks?again": http.StatusOK, "/other": http.StatusNotFound} {
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
		require.NoError(t, <-ended, "the context must outlive the request")
	}
}

// Requests for an unknown path are reported, because the platform may still use the path.
func TestNotFoundHandlerReportsRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		header string
		want   error // beside ErrUnknownPath
	}{
		"signed":    {http.MethodPost, sign("another secret", now, orderBody), webhook.ErrUnknownPath},
		"unsigned":  {http.MethodPost, "", webhook.ErrSignatureMissing},
		"malformed": {http.MethodPost, "x", webhook.ErrSignatureMalformed},
		"browser":   {http.MethodGet, "", webhook.ErrMethod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			var observed []webhook.Observation
			handler := webhook.NotFoundHandler(slog.New(slog.NewTextHandler(&log, nil)), webhook.Observer{
				RequestEnd: func(_ context.Context, o webhook.Observation) { observed = append(observed, o) },
			})
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request(c.method, c.header, orderBody))
			assert.Equal(t, http.StatusNotFound, w.Code)
			assert.Equal(t, "Not Found\n", w.Body.String())
			require.Len(t, observed, 1)
			assert.Equal(t, webhook.OutcomeRefused, observed[0].Outcome)
			assert.Equal(t, http.StatusNotFound, observed[0].Status)
			require.ErrorIs(t, observed[0].Err, webhook.ErrUnknownPath)
			require.ErrorIs(t, observed[0].Err, c.want)
			assert.Contains(t, log.String(), "status=404")
		})
	}
}
