package dispensarytest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnknownPageMatchesCaller(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	origin := strings.TrimSuffix(fake.Site().BaseURL, "/api")
	for _, c := range []struct{ path, accept, kind, text string }{
		{"/no/such/page", "text/html,*/*;q=0.8", "text/html; charset=utf-8", "<h1>Not Found</h1>"},
		{"/", "text/html", "text/html; charset=utf-8", "The API is at " + fake.Site().BaseURL},
		{"/no/such/page", "*/*", "application/json; charset=utf-8", "Not Found"},
		{"/api/no/such/call", "text/html", "application/json; charset=utf-8", "Not Found"},
	} {
		fake.Journal.Reset()
		status, header, text := get(t, fake, origin+c.path, c.accept)
		assert.Equal(t, http.StatusNotFound, status, c.path)
		assert.Equal(t, c.kind, header.Get("Content-Type"), c.path)
		assert.Contains(t, text, c.text)
		require.Len(t, fake.Journal.Requests(), 1)
		assert.NotEmpty(t, unexpected(fake.Journal.Requests()[0]), "%s is not an operation", c.path)
	}
}

func TestFaviconIsNotRecorded(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	status, header, text := get(t, fake, strings.TrimSuffix(fake.Site().BaseURL, "/api")+"/favicon.ico", "image/*")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "image/svg+xml", header.Get("Content-Type"))
	assert.Contains(t, text, "<svg")
	assert.Empty(t, fake.Journal.Requests())
	fake.Journal.CheckNoUnexpected(t)
}

// get requests a URL with an Accept header.
func get(t *testing.T, fake *Server, address, accept string) (status int, header http.Header, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	response, err := fake.HTTPClient().Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, response.Header, string(body)
}
