package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/webhook"
)

func TestFakeWritesVariables(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), ".env")
	for range 2 { // the second run replaces the file of the first
		r := launch(t, "--env", path)
		config, err := integration.Load(nil, path)
		require.NoError(t, err)
		require.Len(t, config.Applications, 1)
		a := config.Applications[0]
		assert.Equal(t, r.settings.BaseURL, a.Site.BaseURL)
		assert.Equal(t, r.settings.ClientSecret, a.ClientSecret.Reveal())
		assert.Equal(t, r.settings.WebhookSecret, a.WebhookSecrets[0].Reveal())
		app, err := integration.Open(t.Context(), config, integration.Setup{
			DisableReconcile: true, Work: webhook.Work{Handle: func(context.Context, events.Event) error { return nil }},
		})
		require.NoError(t, err)
		require.NoError(t, app.Shutdown(t.Context()))
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(content), "\nDISPENSARY_CONTROL_URL="+r.settings.ControlURL+"\n")
		assert.NotContains(t, string(content), "_FILE=")
		info, err := os.Stat(path)
		require.NoError(t, err)
		if runtime.GOOS != "windows" {
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		}
		require.NoError(t, os.Chmod(path, 0o644))
		r.end(exitDone)
	}
}

func TestDevWritesVariables(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := filepath.Join(f.folder, ".env")
	f.ran("dev", "--env", path, "--", "grep", "-q", "DISPENSARY_ACCESS_TOKEN=.", path)
}

func TestEnvRejectsForeignFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := filepath.Join(f.folder, ".env")
	require.NoError(t, os.WriteFile(path, []byte("OWN=1\n"), 0o600))
	for _, command := range [][]string{{"fake", "--env", path}, {"dev", "--env", path, "--", "true"}} {
		f.refused("--env "+path+" exists and was not written by dispensary: use another file", command...)
	}
	require.NoError(t, os.Symlink(path, path+".link"))
	f.refused("was not written by dispensary", "fake", "--env", path+".link")
	f.refused("was not written by dispensary", "fake", "--env", f.folder)
	f.refused("no such file", "fake", "--env", filepath.Join(f.folder, "none", ".env"))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "OWN=1\n", string(content))
}

func TestQuotedValuesAreReadBack(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"plain", "two words", `a#b $HOME \n "x"`, `it's "x" \ $HOME`, "2026:q83v+/A="} {
		path := envFile(filepath.Join(t.TempDir(), ".env"))
		require.NoError(t, path.write(map[string]string{"DISPENSARY_STORE": value}))
		config, _ := integration.Load(nil, string(path))
		assert.Equal(t, dispensary.NewSecret(value), config.Store)
	}
}
