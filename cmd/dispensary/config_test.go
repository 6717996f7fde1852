package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMissingConfigurationHasOneWording(t *testing.T) {
	t.Parallel()
	delivery := filepath.Join(t.TempDir(), "delivery.http")
	require.NoError(t, os.WriteFile(delivery, nil, 0o600))
	empty := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(empty, []byte("{}"), 0o600))
	for _, args := range [][]string{
		{"api", "GET", "/clinic"}, {"login"}, {"accounts", "list"}, {"doctor"}, {"listen", "--forward-to", "http://localhost:1"},
		{"listen", "--forward-to", "http://localhost:1", "--configured"}, {"verify", delivery}, {"catalog", "sync"}, {"probe", "--yes"},
	} {
		for _, variable := range []string{"", "DISPENSARY_ACCESS_TOKEN"} {
			f := bare(t)
			if variable != "" {
				f.variables = map[string]string{variable: "token"}
			}
			f.refused(`dispensary: no environment is configured: run "dispensary dev -- COMMAND" with a fake platform, or set the variables`, args...)
			f.refused(`dispensary: no environment is configured: add one to "environments" in the file`, append(args, "--config", empty)...)
		}
	}
}

func TestUnknownVariableIsReported(t *testing.T) {
	t.Parallel()
	f := bare(t)
	f.variables = map[string]string{"DISPENSARY_US_SANDBOX_BASEURL": "https://canary.example"}
	folder := filepath.Join(f.folder, "dispensary")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, configName), []byte(`{"profiles": {"default": {}}}`), 0o600))
	stderr := f.refused("DISPENSARY_US_SANDBOX_BASEURL is not a variable of this library: did you mean DISPENSARY_US_SANDBOX_BASE_URL?", "api", "GET", "/clinic")
	assert.NotContains(t, stderr, "canary")
}
