package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
)

// fakePlatform is a running fake with its printed settings.
type fakePlatform struct {
	*running
	settings control.Settings
	line     string
}

// launch starts the fake with --json.
func launch(t *testing.T, flags ...string) *fakePlatform {
	t.Helper()
	p := &fakePlatform{running: bare(t).start(nil, append([]string{"fake", "--json"}, flags...)...)}
	p.line = "{" + p.out.after(t, "{")
	require.NoError(t, json.Unmarshal([]byte(p.line), &p.settings))
	return p
}

func (r *fakePlatform) get(address string) (int, string) {
	r.t.Helper()
	answer, err := http.Get(address)
	require.NoError(r.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(r.t, err)
	return answer.StatusCode, string(text)
}

func TestFakePrintsSettings(t *testing.T) {
	t.Parallel()
	r := launch(t, "--seed", "7", "--region", "CA", "--redirect-uri", "https://ehr.example.com/callback")
	assert.Equal(t, 1, assertDocuments(t, "fake", r.line))
	assert.Equal(t, "https://ehr.example.com/callback", r.settings.RedirectURI)
	status, _ := r.get(r.settings.BaseURL + "/clinic")
	assert.Equal(t, http.StatusUnauthorized, status, "the API requires a token")
	_, same := r.get(r.settings.ControlURL + "/settings")
	assert.JSONEq(t, r.line, same, "the control API returns the same settings")
	r.end(exitDone)
}

func TestFakeStartsWithOwnWorld(t *testing.T) {
	t.Parallel()
	// The file is the example of the help.
	help, _ := bare(t).ran("help", "fake")
	_, text, _ := strings.Cut(help, "default catalog:\n")
	text, _, _ = strings.Cut(text, "\nIf the file has several clinics")
	world := filepath.Join(t.TempDir(), "world.json")
	require.NoError(t, os.WriteFile(world, []byte(text), 0o600))
	r := launch(t, "--world", world)
	require.Len(t, r.settings.Users, 2)
	assert.Equal(t, "ada@ehr.example", r.settings.Users[0].Email)
	r.end(exitDone)

	require.NoError(t, os.WriteFile(world, []byte(strings.Replace(strings.Replace(text, "max@", "canary", 1), `"units": 2`, `"unit": 2`, 1)), 0o600))
	stderr := bare(t).refused("--world: "+world+": patients[0].email is not an e-mail address; ", "fake", "--world", world)
	assert.Contains(t, stderr, "; plans[0].products[0].unit does not exist: did you mean units?")
	assert.NotContains(t, stderr, "canary")
	bare(t).refused("--world: sets the size of the world: remove the size option", "fake", "--world", world, "--size", "large")
}

// Without a seed, secrets are unpredictable. The printed seed still repeats the run.
func TestSecretsAreRandomWithoutSeed(t *testing.T) {
	t.Parallel()
	first, second := launch(t), launch(t)
	assert.NotEqual(t, first.settings.ClientSecret, second.settings.ClientSecret)
	assert.NotEqual(t, first.settings.WebhookSecret, second.settings.WebhookSecret)
	assert.NotEqual(t, first.settings.ChallengeToken, second.settings.ChallengeToken)
	assert.NotEqual(t, first.settings.ClinicKey, second.settings.ClinicKey)

	output := announced(t)
	seed := regexp.MustCompile(`(?m)^Seed +(\d+)$`).FindStringSubmatch(output)
	require.Len(t, seed, 2, output)
	again := launch(t, "--seed", seed[1])
	assert.Contains(t, output, again.settings.ClientSecret)
}

func TestFakeRegistersWebhook(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got <- q.Header.Get("SVC-Signature") }))
	t.Cleanup(receiver.Close)
	r := launch(t, "--webhook", receiver.URL, "--behavior", "delivery-conditions=off", "--behavior", "integration-activation=from-the-start")
	register(t, r.settings)
	assert.Contains(t, <-got, "v1=")
}

func TestFakeServesTLS(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "platform.pem")
	r := launch(t, "--tls", "--cert", file)
	pem, err := os.ReadFile(file)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(client.CloseIdleConnections)
	answer, err := client.Get(r.settings.BaseURL + "/clinic")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	assert.True(t, strings.HasPrefix(r.settings.AuthURL, "https://"))
	assert.True(t, strings.HasPrefix(r.settings.ControlURL, "http://127.0.0.1:"), "console and control API use plain HTTP, because they are on loopback")
}

func TestFakeFreezesClock(t *testing.T) {
	t.Parallel()
	r := launch(t, "--freeze", "2026-03-02T09:00:00Z")
	_, clock := r.get(r.settings.ControlURL + "/clock")
	assert.JSONEq(t, `{"now":"2026-03-02T09:00:00Z","frozen":true,"next":null}`, clock)
	_, clock = r.get(launch(t, "--freeze", "now").settings.ControlURL + "/clock")
	assert.Contains(t, clock, `"frozen":true`)
}

func TestFakeEndsDespiteOpenPage(t *testing.T) {
	t.Parallel()
	r := launch(t, "--state", filepath.Join(t.TempDir(), "state"))
	page, err := http.Get(r.settings.ConsoleURL + "live")
	require.NoError(t, err)
	assert.Equal(t, "text/event-stream", page.Header.Get("Content-Type"))
	r.end(exitDone)
	require.NoError(t, page.Body.Close())
}

// announced runs the fake without --json and returns its output.
func announced(t *testing.T, flags ...string) string {
	t.Helper()
	r := bare(t).start(nil, append([]string{"fake"}, flags...)...)
	r.out.after(t, "Ready.\n")
	r.end(exitDone)
	return r.out.String()
}

func TestFakeAnnouncesPlatform(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	output := announced(t, "--state", file)
	assert.NotRegexp(t, `(?m)[ \t]+$`, output, "no line ends with blanks")
	assert.True(t, strings.HasSuffix(output, "Ready.\nThe state is saved in "+file+".\n"), output)
	assert.True(t, strings.HasSuffix(announced(t), "Ready.\n"), "without --state, no state is saved")
}
