package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// login starts the command. It returns the printed URL and a function that waits for the end.
func (f *fixture) login(args ...string) (start string, ended func() (code int, stdout, stderr string)) {
	f.t.Helper()
	r := f.start(nil, append([]string{"login"}, args...)...)
	start = r.errOut.after(f.t, "Open this URL in a browser: ")
	return start, func() (int, string, string) { return <-r.code, r.out.String(), r.errOut.String() }
}

// browse follows the flow like a browser to the platform and back, and returns the last page.
func (f *fixture) browse(start string, decide func(authorizeURL string, user model.User) (*url.URL, error)) string {
	f.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(f.t, err)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	visit := func(address string) (*http.Response, string) {
		response, err := browser.Get(address)
		require.NoError(f.t, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(f.t, err)
		return response, string(text)
	}
	response, _ := visit(start)
	back, err := decide(response.Header.Get("Location"), f.platform.Users()[0])
	require.NoError(f.t, err)
	_, text := visit(back.String())
	return text
}

func TestLoginConnectsInBrowser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	start, ended := f.login("--json")
	assert.Contains(t, f.browse(start, f.platform.Approve), "You are connected")
	code, out, stderr := ended()
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, 1, assertDocuments(t, "login", out))
	assert.Contains(t, out, `"user":"me"`)
	assert.Contains(t, out, `"status":"connected"`)

	// The next command finds the tokens. The files do not contain them in plain text.
	f.ran("api", "GET", "/clinic")
	folder := filepath.Join(f.folder, "dispensary")
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(folder, file.Name()))
		require.NoError(t, err)
		for _, token := range f.platform.Tokens.Credentials() {
			assert.NotContains(t, string(content), token.Value)
		}
		info, err := file.Info()
		require.NoError(t, err)
		if runtime.GOOS != "windows" {
			assert.Zero(t, info.Mode().Perm()&0o077, "only the owner can read %s", file.Name())
		}
	}

	out, _ = f.ran("accounts", "list", "--json")
	assert.Equal(t, 1, assertDocuments(t, "accounts list", out))
	_, out, _ = f.run("accounts", "list")
	assert.Regexp(t, `^me\tus/sandbox\tconnected\t\tPractitioner \S+\t\S+Z\t\S+Z\n$`, out)

	out, _ = f.ran("accounts", "disconnect", "--json")
	assert.Equal(t, 1, assertDocuments(t, "accounts disconnect", out))
	assert.Contains(t, out, "not_connected")
	code, _, stderr = f.run("api", "GET", "/clinic")
	assert.Equal(t, exitReject, code)
	assert.Contains(t, stderr, "authoriz")
	_, out, _ = f.run("accounts", "list", "--json")
	assert.Empty(t, out)
}

// Variables for a program can name a store in its memory, and keys that end with a fake platform.
// No command can read that store.
func TestLoginKeepsTokensBesideStoreInMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.variables[storeVariable], f.variables[inboxVariable] = inMemory, inMemory
	f.variables[sealKeysVariable] = "dev:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	f.connected("dr-house")
	f.variables[sealKeysVariable] = "dev:AAAAEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	out, _ := f.ran("accounts", "list")
	assert.Contains(t, out, "dr-house\tus/sandbox\tconnected\t")
	f.ran("api", "GET", "/clinic", "--user", "dr-house")
	code, out, _ := f.run("doctor", "--user", "dr-house")
	assert.Equal(t, exitDone, code, out)
	assert.Contains(t, out, "pass\ttoken refresh\t")
	assert.Contains(t, out, "no inbox outside of memory is configured")
	f.ran("accounts", "disconnect", "--user", "dr-house")
	delete(f.variables, storeVariable)
	delete(f.variables, sealKeysVariable)
	out, _ = f.ran("accounts", "list")
	assert.Empty(t, out)
}

// visit sends a GET request and returns the status. headers alternate names and values.
func visit(t *testing.T, address string, headers ...string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// A page, a program or another user of the machine can send these requests.
func TestLoginIgnoresStrangers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	callback := f.variables["DISPENSARY_US_SANDBOX_REDIRECT_URL"]
	start, ended := f.login()
	bare, _, found := strings.Cut(start, "?")
	require.True(t, found)
	for _, stranger := range [][]string{
		{callback},
		{callback, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image"},
		{callback + "?state=forged&code=code"},
		{callback + "?error=access_denied"},
		{callback + "?code=code"},
		{callback, "Host", "evil.example"},
		{start, "Host", "evil.example"},
		{start, "Sec-Purpose", "prefetch"},
		{bare},
		{bare + "?once="},
		{bare + "?once=forged"},
	} {
		assert.GreaterOrEqual(t, visit(t, stranger[0], stranger[1:]...), 400, stranger)
	}
	page := f.browse(start, func(address string, user model.User) (*url.URL, error) {
		assert.Equal(t, http.StatusForbidden, visit(t, start), "the URL works once")
		back, err := f.platform.Approve(address, user)
		if err == nil { // a link scanner has no cookie
			assert.Equal(t, http.StatusBadRequest, visit(t, back.String()))
		}
		return back, err
	})
	assert.Contains(t, page, "You are connected")
	code, out, stderr := ended()
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, out, "\tPractitioner "+f.platform.Users()[0].ID+"\t", "login must print the stored account")
}

// An ID that no store accepts fails before the browser flow.
func TestLoginChecksUserFirst(t *testing.T) {
	t.Parallel()
	newFixture(t).rejected("--user: ", "login", "--user", " me")
}

// The API has rejected the access token, so the next call asks for a new one.
func TestRestoreRemovesMark(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connected("dr-house")
	f.platform.Tokens.InvalidateAll()
	code, _, stderr := f.run("api", "GET", "/clinic", "--user", "dr-house")
	require.NotEqual(t, exitDone, code, stderr)
	_, out, _ := f.run("accounts", "list")
	require.Contains(t, out, "dr-house\tus/sandbox\tmust_reauthorize\tinvalid_grant\t")

	out, _ = f.ran("accounts", "restore", "--user", "dr-house", "--json")
	assert.Equal(t, 1, assertDocuments(t, "accounts restore", out))
	assert.Contains(t, out, `"status":"expiring"`)
	code, _, _ = f.run("api", "GET", "/clinic", "--user", "dr-house")
	assert.NotEqual(t, exitDone, code)

	code, out, stderr = f.run("accounts", "restore", "--user", "dr-wilson")
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, out)
	assert.Contains(t, stderr, "dr-wilson")
}

func TestDeclinedLoginFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	start, ended := f.login()
	page, err := f.platform.Browser(model.User{}).Cancel(t.Context(), start)
	require.NoError(t, err)
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.NoError(t, page.Body.Close())
	assert.Contains(t, string(text), "<h1>You are not connected</h1>\n<p>Login failed: canceled. Run dispensary login again.</p>")
	assert.Contains(t, page.Header.Get("Content-Security-Policy"), "style-src 'sha256-")
	code, out, stderr := ended()
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, out)
	assert.Contains(t, stderr, "dispensary: not connected: canceled\n")
}

func TestInterruptedLoginStoresNothing(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"login"}, {"login", "--paste"}} {
		f := newFixture(t)
		in, keys := io.Pipe()
		r := f.start(in, flags...)
		r.errOut.after(t, "Open this URL in a browser: ")
		r.end(exitFailed)
		assert.True(t, strings.HasSuffix(r.errOut.String(), "dispensary: interrupted\n"), r.errOut.String())
		require.NoError(t, keys.Close())
		_, out, _ := f.run("accounts", "list")
		assert.Empty(t, out)
	}
}

func TestLoginAcceptsPastedCode(t *testing.T) {
	t.Parallel()
	for name, pasted := range map[string]func(back *url.URL) string{
		"address": (*url.URL).String,
		"code":    func(back *url.URL) string { return back.Query().Get("code") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			in, keys := io.Pipe()
			r := f.start(in, "login", "--paste", "--user", "dr-1")
			back, err := f.platform.Approve(r.errOut.after(t, "Open this URL in a browser: "), f.platform.Users()[0])
			require.NoError(t, err)
			_, err = io.WriteString(keys, pasted(back)+"\n")
			require.NoError(t, err)
			require.Equal(t, exitDone, <-r.code, r.errOut.String())
			assert.Regexp(t, `^dr-1\tus/sandbox\tconnected`, r.out.String())
			assert.NotContains(t, r.out.String()+r.errOut.String(), back.Query().Get("code"))
		})
	}
	f := newFixture(t)
	code, _, stderr := f.runWith(t.Context(), "http://127.0.0.1/callback?code=canary&state=forged\n", "login", "--paste")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "state")
	assert.NotContains(t, stderr, "canary")
	code, _, _ = f.runWith(t.Context(), "\n", "login", "--paste")
	assert.Equal(t, exitReject, code)
}

// The commands neither print nor store the secret.
func TestCommandsAskForClientSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connected("me")
	secret := f.variables["DISPENSARY_US_SANDBOX_CLIENT_SECRET"]
	delete(f.variables, "DISPENSARY_US_SANDBOX_CLIENT_SECRET")
	for _, args := range [][]string{{"accounts", "list"}, {"api", "GET", "/clinic"}, {"doctor"}} {
		f.asks = false
		f.rejected("DISPENSARY_US_SANDBOX_CLIENT_SECRET is empty", args...)
		f.asks = true
		code, out, stderr := f.runWith(t.Context(), secret+"\n", args...)
		assert.Equal(t, exitDone, code, stderr)
		assert.Equal(t, "Client secret of us/sandbox: ", stderr)
		f.platform.CheckNoLeak(t, out)
		code, out, stderr = f.runWith(t.Context(), "\n", args...)
		assert.Equal(t, exitReject, code, stderr)
		assert.Empty(t, out)
		assert.Contains(t, stderr, "the input is empty")
	}
	code, out, _ := f.runWith(t.Context(), "wrong-canary\n", "doctor")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, out, "fail\tclient credentials\t")
	assert.NotContains(t, out, "canary")
}

func TestCommandsSuggestLogin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, args := range [][]string{{"api", "GET", "/clinic"}, {"catalog", "sync"}} {
		f.rejected(`dispensary: us/sandbox/dr-house must authorize again: not_connected: connect with `+
			`"dispensary login --user dr-house --environment us/sandbox"`+"\n", append(args, "--user", "dr-house")...)
	}
}

func TestLoginRejectsConfiguration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	redirect, err := url.Parse(f.variables["DISPENSARY_US_SANDBOX_REDIRECT_URL"])
	require.NoError(t, err)
	taken := takeAddress(t, redirect.Host)
	f.rejected("the redirect address "+taken+": address already in use: stop the program that uses it, or use --paste", "login")
	f.variables["DISPENSARY_US_SANDBOX_REDIRECT_URL"] = "https://ehr.example.com/callback"
	f.rejected("the redirect URL is not a loopback URL", "login")
	f.variables["DISPENSARY_STORE"] = "sqlite:" + t.TempDir()
	f.rejected("DISPENSARY_SEAL_KEYS is empty", "login")
	delete(f.variables, "DISPENSARY_STORE")
	delete(f.variables, "DISPENSARY_US_SANDBOX_CLIENT_ID")
	f.rejected("DISPENSARY_US_SANDBOX_CLIENT_ID is empty", "login")
	f.rejected("DISPENSARY_US_SANDBOX_CLIENT_ID is empty", "accounts", "list")
	assert.Empty(t, f.platform.Journal.Requests())

	f = newFixture(t)
	require.NoError(t, os.MkdirAll(filepath.Join(f.folder, "dispensary", "tokens-us-sandbox-1.db"), 0o700))
	f.rejected("unlock the keyring", "accounts", "list") // a store exists, but no key
	for _, name := range []string{"BASE_URL", "AUTH_URL", "CLIENT_ID", "CLIENT_SECRET", "REDIRECT_URL"} {
		f.variables["DISPENSARY_US_PRODUCTION_"+name] = f.variables["DISPENSARY_US_SANDBOX_"+name]
		delete(f.variables, "DISPENSARY_US_SANDBOX_"+name)
	}
	f.folder = t.TempDir()
	delete(f.variables, "DISPENSARY_US_SANDBOX_CLINIC_KEY")
	f.rejected("add --production", "login")
	f.rejected("add --production", "accounts", "disconnect")
	f.rejected("add --production", "accounts", "restore")
}
