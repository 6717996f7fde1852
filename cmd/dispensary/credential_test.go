package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
				f.refused("DISPENSARY_ACCESS_TOKEN does not belong to this ", append(args, flags...)...)
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
			f.refused("DISPENSARY_ENVIRONMENT must name the environment of DISPENSARY_ACCESS_TOKEN: unset the token, or add --user to call as a connected user", append(args, flags...)...)
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
	f.refused("DISPENSARY_ENVIRONMENT must name the environment", "api", "GET", "/clinic", "--config", file)
	f.variables[environmentVariable] = "ca/sandbox"
	f.refused("DISPENSARY_ACCESS_TOKEN does not belong to this us/sandbox site", "api", "GET", "/clinic", "--config", file, "--environment", "us/sandbox")
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
			f.refused(tokenVariable+want, args...)
		}
	}
	f.variables[tokenVariable], f.variables[clinicKeyVariable] = token, "  "
	f.refused(clinicKeyVariable+" is blank", "api", "GET", "/clinic")
	assert.Empty(t, f.platform.Journal.Requests())
}

func TestUserFlagOverridesCredential(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connected("dr-house")
	f.withCredential()
	before := len(f.platform.Journal.Requests())
	for _, args := range credentialed(t) {
		f.refused("us/sandbox/nobody must authorize again", append(args, "--user", "nobody")...)
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
			f.refused("us/sandbox/me must authorize again: not_connected", append(args, flags...)...)
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
		f.refused("dispensary: DISPENSARY_ENVIRONMENT "+wrong+" is not configured: use us/sandbox", "api", "GET", "/clinic", "--user", "me")
	}
}
