package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// withCredential sets an access token and a clinic key that are unknown to every platform.
func (f *fixture) withCredential() *fixture {
	f.variables[tokenVariable], f.variables[clinicKeyVariable] = "canary-token", "canary-key"
	return f
}

// withOtherSite configures a second site: as environment in the variables, and as environment inFile
// in the file other.json and in the profile "other". It returns a function that asserts that the
// site got no credential.
func (f *fixture) withOtherSite(environment, inFile string) (check func(message ...any)) {
	f.t.Helper()
	var mu sync.Mutex
	var got []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header)
		w.WriteHeader(http.StatusNotFound)
	}))
	f.t.Cleanup(other.Close)
	settings := map[string]string{
		"base_url": other.URL + "/api", "auth_url": other.URL, "client_id": "client", "client_secret": "secret",
		"redirect_url": "http://127.0.0.1:8765/callback",
	}
	for key, name := range map[string]string{
		"base_url": "BASE_URL", "auth_url": "AUTH_URL", "client_id": "CLIENT_ID", "client_secret": "CLIENT_SECRET", "redirect_url": "REDIRECT_URL",
	} {
		f.variables["DISPENSARY_"+environment+"_"+name] = settings[key]
	}
	config := map[string]any{"environments": map[string]any{inFile: settings}}
	f.writeJSON("other.json", config)
	f.writeJSON(filepath.Join("dispensary", configName), map[string]any{"profiles": map[string]any{"other": config}})
	return func(message ...any) {
		f.t.Helper()
		mu.Lock()
		defer mu.Unlock()
		for _, header := range got {
			assert.NotContains(f.t, header.Get("Authorization"), "Bearer", message...)
			assert.Empty(f.t, header.Get("X-SVC-Clinic-Key"), message...)
		}
	}
}

// writeJSON writes a file below the configuration folder and returns its path.
func (f *fixture) writeJSON(name string, document any) string {
	f.t.Helper()
	path := filepath.Join(f.folder, name)
	content, err := json.Marshal(document)
	require.NoError(f.t, err)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(f.t, os.WriteFile(path, content, 0o600))
	return path
}

// credentialed returns the commands that call with DISPENSARY_ACCESS_TOKEN.
func credentialed(t *testing.T) [][]string {
	return append([][]string{
		{"catalog", "sync"},
		{"probe", "--yes", "--output", filepath.Join(t.TempDir(), "behaviors.json")},
	}, callers...)
}

func TestCredentialStaysAtItsSite(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"us/sandbox", "US/Sandbox"} {
		f := newFixture(t).withCredential()
		f.variables[environmentVariable] = home
		check := f.withOtherSite("CA_SANDBOX", "us/sandbox")
		for _, flags := range [][]string{
			{"--environment", "ca/sandbox"}, {"--config", filepath.Join(f.folder, "other.json")}, {"--profile", "other"},
		} {
			for _, args := range credentialed(t) {
				f.rejected("DISPENSARY_ACCESS_TOKEN does not belong to this ", append(args, flags...)...)
			}
			f.run(append([]string{"doctor"}, flags...)...)
			check(flags)
		}
		assert.Empty(t, f.platform.Journal.Requests())
	}
}

// With two environments and no DISPENSARY_ENVIRONMENT, the token belongs to neither.
func TestCredentialOfUnknownEnvironmentIsRejected(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withCredential()
	check := f.withOtherSite("CA_SANDBOX", "ca/production")
	for _, flags := range [][]string{
		{"--environment", "ca/sandbox"}, {"--environment", "us/sandbox"}, {"--profile", "other"},
	} {
		for _, args := range callers {
			f.rejected("DISPENSARY_ENVIRONMENT must name the environment of DISPENSARY_ACCESS_TOKEN: unset the token, or add --user to call as a connected user", append(args, flags...)...)
		}
	}
	check()
	assert.Empty(t, f.platform.Journal.Requests())
}

// A file does not determine the site of the token, so DISPENSARY_ENVIRONMENT is required.
func TestCredentialBesideFileNeedsEnvironment(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	file := f.writeJSON("one.json", map[string]any{"environments": map[string]any{"us/sandbox": map[string]string{
		"base_url": f.platform.Site().BaseURL, "auth_url": f.platform.Site().AuthURL,
	}}})
	f.variables = map[string]string{tokenVariable: f.variables[tokenVariable]}
	f.rejected("DISPENSARY_ENVIRONMENT must name the environment", "api", "GET", "/clinic", "--config", file)
	f.variables[environmentVariable] = "ca/sandbox"
	f.rejected("DISPENSARY_ACCESS_TOKEN does not belong to this us/sandbox site", "api", "GET", "/clinic", "--config", file, "--environment", "us/sandbox")
	f.variables[environmentVariable] = "us/sandbox"
	f.ran("api", "GET", "/clinic", "--config", file)
}

func TestCredentialOfWrongFormIsRejected(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withCredential()
	token := f.variables[tokenVariable]
	for text, want := range map[string]string{"  ": " is blank", "Bearer " + token: " begins with Bearer", `"` + token + `"`: " has quotes around it", token + " x": " contains white space", token + "\n": " contains a line break"} {
		f.variables[tokenVariable] = text
		for _, args := range callers {
			f.rejected(tokenVariable+want, args...)
		}
	}
	f.variables[tokenVariable], f.variables[clinicKeyVariable] = token, "  "
	f.rejected(clinicKeyVariable+" is blank", "api", "GET", "/clinic")
	assert.Empty(t, f.platform.Journal.Requests())
}

func TestUserFlagOverridesCredential(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connected("dr-house")
	f.withCredential()
	before := len(f.platform.Journal.Requests())
	for _, args := range credentialed(t) {
		f.rejected("us/sandbox/nobody must authorize again", append(args, "--user", "nobody")...)
	}
	assert.Len(t, f.platform.Journal.Requests(), before)
	delete(f.variables, "DISPENSARY_US_SANDBOX_CLINIC_KEY")
	for _, args := range [][]string{
		{"api", "GET", "/clinic"}, {"catalog", "sync"}, {"doctor"},
	} {
		f.ran(append(args, "--user", "dr-house")...)
	}
	code, _, _ := f.run("api", "GET", "/clinic")
	assert.Equal(t, exitFailed, code, "without --user it calls with the unknown token")
}

// A file can use the same environment for another site, which must not get the tokens of login.
func TestStoredTokenStaysAtItsSite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connected("me")
	delete(f.variables, "DISPENSARY_US_SANDBOX_CLINIC_KEY")
	check := f.withOtherSite("CA_SANDBOX", "us/sandbox")
	for _, flags := range [][]string{{"--config", filepath.Join(f.folder, "other.json")}, {"--profile", "other"}} {
		for _, args := range callers {
			f.rejected("us/sandbox/me must authorize again: not_connected", append(args, flags...)...)
		}
		_, out, _ := f.run(append([]string{"accounts", "list"}, flags...)...)
		assert.Empty(t, out)
	}
	check()
}

func TestEnvironmentIgnoresCase(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	f.ran("api", "GET", "/clinic", "--environment", "US/Sandbox")
	f.variables[environmentVariable] = "US/SANDBOX"
	f.ran("api", "GET", "/clinic")
	for _, wrong := range []string{"ca/sandbox", "us-sandbox"} {
		f.variables[environmentVariable] = wrong
		f.rejected("dispensary: DISPENSARY_ENVIRONMENT "+wrong+" is not configured: use us/sandbox", "api", "GET", "/clinic", "--user", "me")
	}
}

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
		f.rejected("--env "+path+" exists and was not written by dispensary: use another file", command...)
	}
	require.NoError(t, os.Symlink(path, path+".link"))
	f.rejected("was not written by dispensary", "fake", "--env", path+".link")
	f.rejected("was not written by dispensary", "fake", "--env", f.folder)
	f.rejected("no such file", "fake", "--env", filepath.Join(f.folder, "none", ".env"))
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

func TestMissingConfigurationHasOneWording(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(empty, []byte("{}"), 0o600))
	for _, args := range [][]string{
		{"api", "GET", "/clinic"}, {"login"}, {"accounts", "list"}, {"doctor"}, {"listen", "--forward-to", "http://localhost:1"},
		{"listen", "--forward-to", "http://localhost:1", "--configured"}, {"catalog", "sync"}, {"probe", "--yes"},
	} {
		for _, variable := range []string{"", "DISPENSARY_ACCESS_TOKEN"} {
			f := bare(t)
			if variable != "" {
				f.variables = map[string]string{variable: "token"}
			}
			f.rejected(`dispensary: no environment is configured: run "dispensary dev -- COMMAND" with a fake platform, or set the variables`, args...)
			f.rejected(`dispensary: no environment is configured: add one to "environments" in the file`, append(args, "--config", empty)...)
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
	stderr := f.rejected("DISPENSARY_US_SANDBOX_BASEURL is not a variable of this library: did you mean DISPENSARY_US_SANDBOX_BASE_URL?", "api", "GET", "/clinic")
	assert.NotContains(t, stderr, "canary")
}

// Two sites can have the same environment, such as a sandbox and a fake platform.
func TestSitesOfOneEnvironmentShareNoFiles(t *testing.T) {
	t.Parallel()
	p := bare(t).program(nil, nil, nil)
	one := dispensary.Site{Environment: dispensary.USSandbox, BaseURL: "https://one.example/api", AuthURL: "https://one.example"}
	slash, other := one, one
	slash.BaseURL += "/"
	other.BaseURL = "https://other.example/api"
	for name, file := range map[string]func(dispensary.Site) string{
		"catalog": func(s dispensary.Site) string { return siteFile("catalog", ".json.gz", s) },
		"cursor": func(s dispensary.Site) string {
			name, err := p.cursorFile(s, "http://localhost:3000")
			require.NoError(t, err)
			return name
		},
		"tokens": func(s dispensary.Site) string { return loginStore("", integration.Application{Site: s}) },
	} {
		assert.NotEqual(t, file(one), file(other), name)
		assert.Equal(t, file(one), file(slash), name)
	}
}

func TestSQLitePathHasNoHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	f.variables["DISPENSARY_STORE"] = "sqlite://var/lib/tokens.db"
	f.rejected("DISPENSARY_STORE must not begin with sqlite:// and a host", "accounts", "list")
}

// mapKeyring is a keyring in memory.
type mapKeyring map[string]string

func (k mapKeyring) Get(service, user string) (string, error) {
	if secret, ok := k[service+" "+user]; ok {
		return secret, nil
	}
	return "", errors.New("not found")
}

func (k mapKeyring) Set(service, user, password string) error {
	k[service+" "+user] = password
	return nil
}

// lockedKeyring blocks until the end of the test.
type lockedKeyring struct{ over chan struct{} }

func (k lockedKeyring) Get(string, string) (string, error) { <-k.over; return "", errors.New("locked") }
func (k lockedKeyring) Set(string, string, string) error   { <-k.over; return errors.New("locked") }

func TestKeyringStoresKey(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ring := mapKeyring{}
	made, err := sealKeys(t.Context(), ring, folder)
	require.NoError(t, err)
	_, err = seal.ParseKeyRing(made)
	require.NoError(t, err)
	again, err := sealKeys(t.Context(), ring, folder)
	require.NoError(t, err)
	assert.Equal(t, made.Reveal(), again.Reveal())
	other, err := sealKeys(t.Context(), ring, t.TempDir())
	require.NoError(t, err)
	assert.NotEqual(t, made.Reveal(), other.Reveal())
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, files)

	// Without the keyring, a new key could not decrypt the existing store.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokens-us-sandbox-1.db"), nil, 0o600))
	_, err = sealKeys(t.Context(), noKeyring{}, folder)
	require.ErrorContains(t, err, "unlock the keyring and retry: there is no keyring")
}

func TestFileReplacesUnresponsiveKeyring(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		locked := lockedKeyring{make(chan struct{})}
		defer close(locked.over)
		begin := time.Now()
		made, err := sealKeys(t.Context(), locked, folder)
		require.NoError(t, err)
		assert.Equal(t, 2*keyringTime, time.Since(begin), "waits for reading and for storing the key")
		info, err := os.Stat(filepath.Join(folder, "seal.key"))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		begin = time.Now()
		again, err := sealKeys(t.Context(), locked, folder)
		require.NoError(t, err)
		assert.Equal(t, made.Reveal(), again.Reveal())
		assert.Zero(t, time.Since(begin), "reads the file before the keyring")
	})
}
