package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/probe"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/webhook"
)

// storedIn creates store and inbox in a file and connects the user dr-house.
func (f *fixture) storedIn(file string) {
	f.t.Helper()
	f.variables["DISPENSARY_STORE"], f.variables["DISPENSARY_INBOX"] = "sqlite:"+file, "sqlite:"+file
	f.variables["DISPENSARY_SEAL_KEYS"] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	config, err := integration.Load(environment(f.variables))
	require.NoError(f.t, err)
	app, err := integration.Open(f.t.Context(), config, integration.Setup{
		Work: webhook.Work{Handle: func(context.Context, events.Event) error { return nil }},
	})
	require.NoError(f.t, err)
	require.NoError(f.t, app.Shutdown(f.t.Context()))
	f.connected("dr-house")
}

func rowsOf(report doctor.Report) map[string]doctor.Status {
	rows := map[string]doctor.Status{}
	for _, row := range report.Rows {
		rows[row.Check] = row.Status
	}
	return rows
}

// The output for a healthy integration contains no secret.
func TestDoctorPassesHealthyIntegration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.storedIn(filepath.Join(f.folder, "ehr.db"))
	var report doctor.Report
	f.document("doctor", &report, "--operation", "patients.create")
	rows := rowsOf(report)
	for _, name := range []string{"client credentials", "redirect address", "token scopes", "token refresh", "delivery log", "inbox waiting", "store sealed", "store lease"} {
		assert.Equal(t, doctor.StatusPass, rows[name], name)
	}
	assert.Equal(t, doctor.StatusSkip, rows["webhook address"])

	out, _ := f.ran("doctor")
	assert.Contains(t, out, "pass\ttoken refresh\tstored a new token pair, and the API accepts it\t\t\n")
	f.terminal = true
	out, _ = f.ran("doctor", "--user", "dr-house")
	assert.Contains(t, out, "0 failed")
	assert.Contains(t, out, "\n\x1b[32mpass\x1b[0m  token refresh ")
	f.platform.CheckNoLeak(t, out)
}

// --fix prints commands and runs none of them.
func TestDoctorFindsFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file := filepath.Join(f.folder, "ehr.db")
	f.storedIn(file)
	f.variables["DISPENSARY_US_SANDBOX_CLIENT_SECRET"] = "wrong-canary"
	f.variables["DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS"] = "secret-canary"
	f.variables["DISPENSARY_US_SANDBOX_WEBHOOK_CHALLENGE"] = "challenge-canary"
	closed := "https://" + freeAddress(t) + "/webhooks"
	code, out, stderr := f.run("doctor", "--webhook", closed)
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "dispensary: 3 checks failed\n", stderr)
	assert.Contains(t, out, "fail\treconcile\t", "no reconciler has run")
	assert.Contains(t, out, "fail\tclient credentials\t")
	assert.Contains(t, out, "fail\twebhook address\t")
	assert.NotContains(t, out, "canary")
	code, out, _ = f.run("doctor", "--webhook", closed, "--fix")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, out, "# webhook address: ")
	assert.Contains(t, out, "\ncurl -sS ")
	for line := range strings.Lines(out) {
		assert.Regexp(t, "^(# |curl |openssl |timedatectl )", line)
	}

	// Doctor does not create a missing database.
	f.variables["DISPENSARY_STORE"], f.variables["DISPENSARY_INBOX"] = "sqlite:"+file+".absent", "sqlite:"+file+".absent"
	code, out, _ = f.run("doctor")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, out, "fail\tstore schema\t")
	assert.Contains(t, out, "fail\tinbox schema\t")
	assert.NoFileExists(t, file+".absent")
}

// In production, doctor needs --production to refresh the token.
func TestDoctorChecksProduction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sandbox := f.variables
	f.variables = map[string]string{}
	for name, value := range sandbox {
		f.variables[strings.Replace(name, "SANDBOX", "PRODUCTION", 1)] = value
	}
	out, _ := f.ran("doctor")
	assert.Contains(t, out, "pass\tclient credentials\t")
}

func TestDoctorRejectsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.rejected("--operation[0] is not an operation", "doctor", "--operation", "patients.crate")
	f.rejected("--user needs a token store: set DISPENSARY_STORE", "doctor", "--user", "me")
	f.rejected("--webhook: DISPENSARY_…_WEBHOOK_SECRETS is empty", "doctor", "--webhook", "https://ehr.example/webhooks")
	f.variables["DISPENSARY_STORE"] = "oracle:canary"
	f.rejected("DISPENSARY_STORE", "doctor")
	f.variables["DISPENSARY_STORE"] = "sqlite:" + filepath.Join(f.folder, "tokens.db")
	f.rejected("DISPENSARY_SEAL_KEYS", "doctor")
}

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
	f.rejected("add --yes", "probe", "--output", name)
	bare(t).rejected("no environment is configured", "probe")
	f.terminal = true
	code, _, stderr := f.runWith(t.Context(), "n\n", "probe", "--output", name)
	assert.Equal(t, exitReject, code)
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
	f.rejected("us/sandbox/me must authorize again: not_connected: connect with ", "probe", "--yes")
	f.rejected("--spare must be a different user than --user", "probe", "--yes", "--spare", "me")
	scheme := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(scheme, []byte("Bearer canary"), 0o600))
	f.rejected("--narrow-file "+scheme+": the token begins with Bearer", "probe", "--yes", "--narrow-file", scheme)
	f.rejected("--narrow-file: ", "probe", "--yes", "--narrow-file", filepath.Join(t.TempDir(), "absent"))
	for _, name := range []string{"BASE_URL", "AUTH_URL", "CLIENT_ID", "CLIENT_SECRET", "REDIRECT_URL"} {
		f.variables["DISPENSARY_US_PRODUCTION_"+name] = f.variables["DISPENSARY_US_SANDBOX_"+name]
	}
	f.rejected("us/production is not a sandbox", "probe", "--yes", "--production", "--environment", "us/production")
	f.withToken()
	f.rejected("us/production is not a sandbox", "probe", "--yes", "--production", "--environment", "us/production")
	f.rejected("--spare needs refresh tokens: unset DISPENSARY_ACCESS_TOKEN", "probe", "--yes", "--environment", "us/sandbox", "--spare", "other")
	assert.Empty(t, f.platform.Journal.Requests())
}
