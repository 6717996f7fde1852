package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/probe"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// connected connects a user in the browser flow.
func (f *fixture) connected(user string) {
	f.t.Helper()
	start, ended := f.login("--user", user)
	f.browse(start, f.platform.Approve)
	code, _, stderr := ended()
	require.Equal(f.t, exitDone, code, stderr)
}

func TestProbeFindsBehavior(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dispensarytest.WithBehavior(behavior.RefreshRotationGrace, behavior.DefaultPageSize20, behavior.MissingScopeStatus404))
	f.connected("me")
	f.connected("other")
	folder := t.TempDir()
	name, narrow := filepath.Join(folder, "behaviors.json"), filepath.Join(folder, "token")
	require.NoError(t, os.WriteFile(narrow, []byte(f.platform.Tokens.Issue(model.User{}, "catalog:read").AccessToken+"\n"), 0o600))
	out, _ := f.ran("probe", "--yes", "--json", "--spare", "other", "--narrow-file", narrow, "--output", name)
	assert.Equal(t, 1, assertDocuments(t, "probe", out))
	var report probe.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Subset(t, report.Behaviors(), []string{"refresh-rotation=grace", "default-page-size=20", "revocation-reach=consent", "missing-scope-status=404"})

	// The authorizations are revoked and deleted from the store.
	_, out, _ = f.run("accounts", "list")
	assert.Empty(t, out)

	// A fake platform started with the file has the same behavior.
	fake := dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithBehaviorsFile(name))
	assert.Contains(t, fake.Behaviors(), behavior.RefreshRotationGrace)
}

func TestProbeAsksForConfirmation(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	name := filepath.Join(t.TempDir(), "behaviors.json")
	f.refused("add --yes", "probe", "--output", name)
	bare(t).refused("no environment is configured", "probe")
	f.terminal = true
	code, _, stderr := f.runWith(t.Context(), "n\n", "probe", "--output", name)
	assert.Equal(t, exitRefuse, code)
	assert.Contains(t, stderr, "2 patients named")
	assert.Contains(t, stderr, "Continue? [y/N] ")
	assert.Contains(t, stderr, "not confirmed: probe created nothing")
	assert.Empty(t, f.platform.Journal.Requests())
	assert.NoFileExists(t, name)

	code, out, stderr := f.runWith(t.Context(), "y\n", "probe", "--output", name)
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, out, "refresh-rotation")
	assert.Contains(t, out, "add --narrow-file")
	assert.Contains(t, stderr, "9 records marked ")
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Contains(t, string(content), `"default-page-size=25"`)
	assert.NotContains(t, string(content), "refresh-rotation", "an access token alone has no refresh token")
}

func TestProbeRejectsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refused("us/sandbox/me must authorize again: not_connected: connect with ", "probe", "--yes")
	f.refused("--spare must be a different user than --user", "probe", "--yes", "--spare", "me")
	scheme := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(scheme, []byte("Bearer canary"), 0o600))
	f.refused("--narrow-file "+scheme+": the token begins with Bearer", "probe", "--yes", "--narrow-file", scheme)
	f.refused("--narrow-file: ", "probe", "--yes", "--narrow-file", filepath.Join(t.TempDir(), "absent"))
	for _, name := range []string{"BASE_URL", "AUTH_URL", "CLIENT_ID", "CLIENT_SECRET", "REDIRECT_URL"} {
		f.variables["DISPENSARY_US_PRODUCTION_"+name] = f.variables["DISPENSARY_US_SANDBOX_"+name]
	}
	f.refused("us/production is not a sandbox", "probe", "--yes", "--production", "--environment", "us/production")
	f.withToken()
	f.refused("us/production is not a sandbox", "probe", "--yes", "--production", "--environment", "us/production")
	f.refused("--spare needs refresh tokens: unset DISPENSARY_ACCESS_TOKEN", "probe", "--yes", "--environment", "us/sandbox", "--spare", "other")
	assert.Empty(t, f.platform.Journal.Requests())
}
