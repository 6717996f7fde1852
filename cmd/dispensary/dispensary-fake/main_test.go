package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
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
	answer, err := http.Get(settings.BaseURL + "/clinic")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, answer.StatusCode, "the API requires a token")
	stop()
	assert.Zero(t, <-code)
	require.FileExists(t, state)
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
