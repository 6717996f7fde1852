package control

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// download gets a file, and the type it comes with.
func (r *fixture) download(path string) (kind, text string) {
	r.t.Helper()
	response, err := http.Get(r.url + path)
	require.NoError(r.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusOK, response.StatusCode)
	return response.Header.Get("Content-Type"), string(body)
}

func TestStateIsSavedAndLoaded(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen())
	before := len(r.fake.Patients.All())
	kind, saved := r.download("/state")
	assert.Equal(t, "application/json", kind)
	for range 2 {
		r.ok("POST", "/patients", "")
		r.ok("PUT", "/state", saved)
		assert.Len(t, r.fake.Patients.All(), before)
	}
	started, err := dispensarytest.LoadSnapshot(strings.NewReader(saved))
	require.NoError(t, err)
	assert.Len(t, dispensarytest.New(t, dispensarytest.WithSnapshot(started)).Patients.All(), before)
	r.refused("PUT", "/state", `{"Version":`, 422, "loading a snapshot")
	_, other := newFixture(t, dispensarytest.WithSeed(9)).download("/state")
	r.refused("PUT", "/state", other, 422, "another seed or region")
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.ok("POST", "/patients", "")
	kind, page := r.download("/timeline")
	assert.Equal(t, "text/html; charset=utf-8", kind)
	assert.Contains(t, page, model.PatientCreated)
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	assert.Nil(t, newFixture(t).ok("GET", "/certificate", "", "certificate"))
	r := newFixture(t, dispensarytest.WithTLS())
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(r.ok("GET", "/certificate", "", "certificate").(string))))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(client.CloseIdleConnections)
	response, err := client.Get(r.fake.BaseURL() + "/clinic")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
}
