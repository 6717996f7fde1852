package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
)

// The program prints its URLs as JSON, serves the platform, and shuts down without an error.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	state := filepath.Join(t.TempDir(), "state.json")
	go func() { code <- run(ctx, []string{"--json", "--seed", "1", "--state", state}, writer, io.Discard) }()
	var settings control.Settings
	require.NoError(t, json.NewDecoder(reader).Decode(&settings))
	response, err := http.Get(settings.BaseURL + "/clinic")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode, "the API requires a token")
	control := strings.TrimSuffix(strings.TrimPrefix(settings.ControlURL, "http://"), "/control")
	assert.Zero(t, run(t.Context(), []string{"--control-addr", control, "--health"}, io.Discard, io.Discard))
	stop()
	assert.Zero(t, <-code)
	require.FileExists(t, state)
	var errOut bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"--control-addr", control, "--health"}, io.Discard, &errOut))
	assert.Contains(t, errOut.String(), "dispensary-fake: --health: ")
}

func TestHealthRejectsOtherServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var errOut bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"--control-addr", server.Listener.Addr().String(), "--health"}, io.Discard, &errOut))
	assert.Equal(t, "dispensary-fake: --health: "+server.URL+"/control/settings responded with 404 Not Found\n", errOut.String())
	errOut.Reset()
	assert.Equal(t, 2, run(t.Context(), []string{"--control-addr", "8081 ", "--health"}, io.Discard, &errOut))
	assert.Equal(t, "dispensary-fake: --control-addr 8081 : not of the form HOST:PORT\n", errOut.String())
}

func TestRunRejectsArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--bogus"}, "dispensary-fake: unknown flag: --bogus\n"},
		{[]string{"nonsense"}, "dispensary-fake: dispensary-fake accepts no arguments: remove \"nonsense\"\n"},
		{[]string{"--addr", "0.0.0.0:80"}, "dispensary-fake: --addr 0.0.0.0:80: other machines can reach this address: add --expose to allow it\n"},
	} {
		var out, errOut bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), c.args, &out, &errOut))
		assert.Empty(t, out.String())
		assert.Equal(t, c.want, errOut.String())
	}
	var out bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"--help"}, &out, io.Discard))
	assert.Contains(t, out.String(), "--behavior NAME=VARIANT")
}
