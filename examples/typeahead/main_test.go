package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestRunServesAndEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, address := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- run(ctx, "127.0.0.1:0", filepath.Join(t.TempDir(), "catalog.db"), func(at string) { address <- at })
	}()
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
	page := get("/?q=magn+glyc", http.StatusOK)
	assert.Contains(t, page, "Magnesium Glycinate</a>")
	assert.Contains(t, page, "1 found of the brands that your clinic may order")
	assert.Contains(t, get("/search?q=magn+glyc", http.StatusOK), `"name":"Magnesium Glycinate"`)
	assert.Contains(t, get("/variants/00000000-0000-4000-8000-000000000000", http.StatusNotFound), "does not have it")
	assert.Contains(t, get("/script.js", http.StatusOK), "fetch")
	cancel()
	require.NoError(t, <-ended)
}

// The second start has the catalog of the first one, also while the platform does not answer.
func TestStartsWithTheCatalogThatWasKept(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t, dispensarytest.WithInMemory())
	user, file := platform.Users()[0], filepath.Join(t.TempDir(), "catalog.db")
	c, err := openCatalog(t.Context(), platform.Client(user), user.ClinicID, file)
	require.NoError(t, err)
	require.NoError(t, c.close())

	platform.Fault(model.Fault{Effect: model.ErrorStatus, Status: http.StatusForbidden})
	c, err = openCatalog(t.Context(), platform.Client(user), user.ClinicID, file)
	require.NoError(t, err)
	for _, path := range []string{"/search?q=magn+glyc", "/?q=magn+glyc"} {
		w := httptest.NewRecorder()
		c.routes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Contains(t, w.Body.String(), "Magnesium Glycinate")
		assert.NotContains(t, w.Body.String(), "permitted", "it cannot be learned")
		assert.NotContains(t, w.Body.String(), "may order")
	}
	require.NoError(t, c.close())

	require.NoError(t, os.WriteFile(file+"x", []byte("something else"), 0o600))
	_, err = openCatalog(t.Context(), platform.Client(user), user.ClinicID, file+"x")
	require.ErrorIs(t, err, sqlstore.ErrNotCatalog)
}
