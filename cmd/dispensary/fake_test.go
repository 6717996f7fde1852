package main

import (
	"bufio"
	"bytes"
	"context"
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

// running is a command under way in this process.
type running struct {
	t        *testing.T
	settings control.Settings
	line     map[string]any // the settings as they were printed
	stop     context.CancelFunc
	code     chan int
}

// launch runs the fake with --json, until the end of the test or stop.
func launch(t *testing.T, flags ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	r := &running{t: t, stop: stop, code: make(chan int, 1)}
	var stderr bytes.Buffer
	go func() {
		r.code <- programFor(t, in, &stderr).run(ctx, append([]string{"fake", "--json"}, flags...))
		_ = in.CloseWithError(io.EOF)
	}()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err, "%s", &stderr)
	require.NoError(t, json.Unmarshal([]byte(line), &r.settings))
	require.NoError(t, json.Unmarshal([]byte(line), &r.line))
	go func() { _, _ = io.Copy(io.Discard, lines) }() // what it says at its end
	t.Cleanup(stop)
	return r
}

func (r *running) get(address string) (int, string) {
	r.t.Helper()
	answer, err := http.Get(address)
	require.NoError(r.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(r.t, err)
	return answer.StatusCode, string(text)
}

func TestTheFirstLineHoldsTheSettings(t *testing.T) {
	t.Parallel()
	r := launch(t, "--seed", "7", "--region", "CA", "--redirect-uri", "https://ehr.example.com/callback")
	for _, name := range []string{
		"base_url", "auth_url", "console_url", "control_url", "client_id", "client_secret",
		"redirect_uri", "webhook_secret", "challenge_token", "clinic_key",
	} {
		assert.NotEmpty(t, r.line[name], name)
	}
	assert.Equal(t, "https://ehr.example.com/callback", r.settings.RedirectURI)
	for _, user := range r.line["users"].([]any) {
		assert.Len(t, user, 4)
	}
	status, _ := r.get(r.settings.BaseURL + "/clinic")
	assert.Equal(t, http.StatusUnauthorized, status, "the API answers")
	_, same := r.get(r.settings.ControlURL + "/settings")
	want, err := json.Marshal(r.line)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), same, "the control API says the same")
	r.stop()
	assert.Equal(t, exitDone, <-r.code)
}

// Without a seed, the secrets cannot be derived from the source, and the run can be
// repeated all the same.
func TestSecretsAreRandomWithoutASeed(t *testing.T) {
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

func TestAWebhookIsRegisteredFromTheStart(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got <- q.Header.Get("SVC-Signature") }))
	t.Cleanup(receiver.Close)
	r := launch(t, "--webhook", receiver.URL, "--behavior", "delivery-conditions=off", "--behavior", "integration-activation=from-the-start")
	register(t, r.settings)
	assert.Contains(t, <-got, "v1=")
}

func TestOverTLS(t *testing.T) {
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
	assert.True(t, strings.HasPrefix(r.settings.ControlURL, "http://127.0.0.1:"), "console and control API do without: they stay on this machine")
}

func TestAFrozenClock(t *testing.T) {
	t.Parallel()
	r := launch(t, "--freeze", "2026-03-02T09:00:00Z")
	_, clock := r.get(r.settings.ControlURL + "/clock")
	assert.JSONEq(t, `{"now":"2026-03-02T09:00:00Z","frozen":true,"next":null}`, clock)
	_, clock = r.get(launch(t, "--freeze", "now").settings.ControlURL + "/clock")
	assert.Contains(t, clock, `"frozen":true`)
}

// A request that waits for a delivery that never comes does not keep the command from
// ending.
func TestItEndsDuringALongPoll(t *testing.T) {
	t.Parallel()
	r := launch(t, "--behavior", "delivery-conditions=off", "--webhook", "http://127.0.0.1:1/")
	made := ask[registered](t, r.settings, "/patients")
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		// It gets an answer, or comes too late; either is an end.
		if answer, err := http.Get(r.settings.ControlURL + "/events/" + made.Event.ID + "/delivery?timeout=1m"); err == nil {
			_ = answer.Body.Close()
		}
	}()
	r.stop()
	assert.Equal(t, exitDone, <-r.code)
	<-waiting
}

// A page of the console that is left open does not keep the command from
// ending.
func TestItEndsWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	r := launch(t, "--state", filepath.Join(t.TempDir(), "state"))
	page, err := http.Get(r.settings.ConsoleURL + "live")
	require.NoError(t, err)
	assert.Equal(t, "text/event-stream", page.Header.Get("Content-Type"))
	r.stop()
	assert.Equal(t, exitDone, <-r.code)
	require.NoError(t, page.Body.Close())
}

// announced is what a person sees: the settings, and what is said at the end.
func announced(t *testing.T, flags ...string) string {
	t.Helper()
	out := &writtenUntil{suffix: "Ready.\n"}
	var stderr bytes.Buffer
	require.Equal(t, exitDone, out.run(t, programFor(t, out, &stderr), append([]string{"fake"}, flags...)...), "%s", &stderr)
	return out.String()
}

// writtenUntil ends the command, as Ctrl-C does, once it has written something.
type writtenUntil struct {
	bytes.Buffer
	suffix string
	stop   context.CancelFunc
}

func (w *writtenUntil) run(t *testing.T, p *program, args ...string) int {
	t.Helper()
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	defer w.stop()
	return p.run(ctx, args)
}

// Write implements [io.Writer].
func (w *writtenUntil) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.HasSuffix(w.String(), w.suffix) {
		w.stop()
	}
	return n, err
}

func TestAnnouncement(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	output := announced(t, "--state", file)
	assert.NotRegexp(t, `(?m)[ \t]+$`, output, "no line ends in blanks")
	assert.True(t, strings.HasSuffix(output, "Ready.\nThe state is kept in "+file+".\n"), output)
	assert.True(t, strings.HasSuffix(announced(t), "Ready.\n"), "without a file nothing is kept")
}
