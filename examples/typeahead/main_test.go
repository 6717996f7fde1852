package main

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunServesAndEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, address := make(chan error, 1), make(chan string, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", func(at string) { address <- at }) }()
	home := <-address
	get := func(path string, status int) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, home+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, status, answer.StatusCode, path)
		return string(text)
	}
	assert.Contains(t, get("/", http.StatusOK), `name="q"`)
	assert.Contains(t, get("/?q=magn+glyc", http.StatusOK), "Magnesium Glycinate</a>")
	assert.Contains(t, get("/search?q=magn+glyc", http.StatusOK), `"name":"Magnesium Glycinate"`)
	assert.Contains(t, get("/variants/00000000-0000-4000-8000-000000000000", http.StatusNotFound), "does not have it")
	assert.Contains(t, get("/script.js", http.StatusOK), "fetch")
	cancel()
	require.NoError(t, <-ended)
}
