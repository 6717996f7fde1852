package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// destination is a receiver of forwarded events.
type destination struct {
	url     string
	handler atomic.Pointer[webhook.Handler] // nil responds with 503
	handled chan string                     // ids of handled events
}

func newDestination(t *testing.T) *destination {
	t.Helper()
	d := &destination{handled: make(chan string, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := d.handler.Load(); handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		http.Error(w, "not yet", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	d.url = server.URL + "/webhooks"
	return d
}

// configure lets the receiver accept events signed with these secrets.
func (d *destination) configure(t *testing.T, with receiverSecrets) {
	t.Helper()
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: func(_ context.Context, e events.Event) error {
		d.handled <- e.ID
		return nil
	}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close(context.Background()) })
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: dispensary.USSandbox, AcceptTimeout: time.Minute,
		Secrets: []api.Secret{api.NewSecret(with.Secret)}, Challenge: api.NewSecret(with.Challenge), Inbox: inbox,
	})
	require.NoError(t, err)
	d.handler.Store(handler)
}

// listen starts a listener with a short interval.
func (f *fixture) listen(args ...string) *running {
	f.t.Helper()
	return f.start(nil, append([]string{"listen", "--interval", "20ms"}, args...)...)
}

func (f *fixture) order() string {
	f.t.Helper()
	_, e, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(f.t, err)
	return e.ID
}

// The receiver uses the printed secrets. It gets events of the selected type, also from the time
// while listen is off.
func TestListenForwardsEventsOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	to := newDestination(t)
	l := f.listen("--forward-to", to.url, "--json", "--type", "order.placed")
	to.configure(t, receiverSecrets{l.errOut.after(t, "webhook secret"), l.errOut.after(t, "challenge token")})
	_, _, err := f.platform.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	first := f.order()
	assert.Equal(t, first, <-to.handled)
	l.out.after(t, `"done":true`)

	f.fails("is in use by another listener", "listen", "--forward-to", to.url)
	l.end(exitDone)
	assert.Equal(t, 1, strings.Count(l.out.String(), `"done":true`))
	assert.Positive(t, assertDocuments(t, "listen", l.out.String()))
	var got responseDocument
	require.NoError(t, json.Unmarshal([]byte(l.out.String()), &got))
	assert.Equal(t, first, got.EventID)
	assert.Equal(t, "order.placed", got.Type)
	assert.Equal(t, http.StatusOK, got.Status)
	assert.NotEmpty(t, got.IntegrationID)

	second := f.order()
	l = f.listen("--forward-to", to.url, "--type", "order.placed")
	assert.Equal(t, second, <-to.handled)
	l.out.after(t, second)
	l.end(exitDone)
	assert.NotContains(t, l.out.String(), first)
	assert.Contains(t, l.out.String(), "\t"+second+"\torder.placed\t", "tab-separated lines")
	assert.Regexp(t, `(?m)^\d\d:\d\d:\d\d\t1\t200\tyes\t[\d.]+m?s\t`, l.out.String())
	files, err := filepath.Glob(filepath.Join(f.folder, "dispensary", "*"))
	require.NoError(t, err)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

func TestListenUsesConfiguredSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	folder := t.TempDir()
	file := filepath.Join(folder, "config.json")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "challenge"), []byte("c-canary\n"), 0o600))
	document, err := json.Marshal(map[string]any{"profiles": map[string]any{"local": map[string]any{"environments": map[string]any{"us/sandbox": map[string]any{
		"base_url": f.platform.Site().BaseURL, "auth_url": f.platform.Site().AuthURL, "webhook_secrets": []string{"s-canary", "old"}, "webhook_challenge_file": filepath.Join(folder, "challenge"),
	}}}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, document, 0o600))
	to := newDestination(t)
	to.configure(t, receiverSecrets{"s-canary", "c-canary"})
	l := f.listen("--forward-to", to.url, "--configured", "--config", file, "--profile", "local")
	assert.Equal(t, "as in the configuration", l.errOut.after(t, "webhook secret"))
	id := f.order()
	assert.Equal(t, id, <-to.handled)
	l.out.after(t, "\t200\tyes\t")
	l.end(exitDone)
	assert.NotContains(t, l.out.String()+l.errOut.String(), "canary")
	assert.NoFileExists(t, filepath.Join(f.folder, "dispensary", "receiver.json"))

	f.rejected("no webhook secret and challenge token are configured for us/sandbox", "listen", "--forward-to", to.url, "--configured")
}

func TestListenPrintsSecretAlone(t *testing.T) {
	t.Parallel()
	f := bare(t)
	kept, err := f.program(nil, nil, nil).localReceiver()
	require.NoError(t, err)
	out, stderr := f.ran("listen", "--print", "secret")
	assert.Equal(t, kept.Secret+"\n", out)
	assert.Empty(t, stderr)
	out, _ = f.ran("listen", "--print", "challenge")
	assert.Equal(t, kept.Challenge+"\n", out)
	f.rejected("--print must be secret or challenge", "listen", "--print", "token")
	for _, beside := range []string{"--configured", "--json", "--forward-to=http://localhost:1"} {
		f.rejected("--print only prints plain text", "listen", "--print", "secret", beside)
	}
}

func TestListenSendsHeaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	got := make(chan http.Header, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	t.Cleanup(server.Close)
	l := f.listen("--forward-to", server.URL, "--header", "X-Tunnel-Auth: canary of ours ", "--header", "X-Other:1")
	l.errOut.after(t, "challenge token")
	f.order()
	header := <-got
	assert.Equal(t, "canary of ours", header.Get("X-Tunnel-Auth"))
	assert.Equal(t, "1", header.Get("X-Other"))
	l.end(exitDone)
	assert.NotContains(t, l.out.String()+l.errOut.String(), "canary")
	for _, wrong := range []string{"canary", "a b: canary", "A: canary\r\nB: 1", ": canary"} {
		assert.NotContains(t, f.rejected("--header number 2 must be 'NAME: VALUE'", "listen", "--forward-to", server.URL, "--header", "A: 1", "--header", wrong), "canary")
	}
	f.rejected("--header cannot set Svc-Signature: it is part of the delivery", "listen", "--forward-to", server.URL, "--header", "svc-signature: canary")
}

func TestListenRejectsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	to := "http://localhost:1/x"
	f.rejected("--forward-to is required", "listen")
	f.rejected("--forward-to must be a URL", "listen", "--forward-to", "localhost:3000")
	f.rejected(`--type must be an event type such as patient.updated, not "order"`, "listen", "--forward-to", to, "--type", "order")
	f.rejected("--since must not be negative", "listen", "--forward-to", to, "--since", "-2h")
	f.rejected("--interval must not be negative", "listen", "--forward-to", to, "--interval", "-2h")
	f.rejected("invalid argument \"2 hours\" for \"--since\"", "listen", "--forward-to", to, "--since", "2 hours")
	f.fails("cursor", "listen", "--forward-to", to, "--cursor", filepath.Join(t.TempDir(), "absent", "x"))
	f.rejected("listen accepts no arguments", "listen", to)

	damaged := filepath.Join(f.folder, "dispensary", "receiver.json")
	require.NoError(t, os.WriteFile(damaged, []byte("{"), 0o600))
	f.rejected("receiver.json is damaged", "listen", "--forward-to", to)
	require.NoError(t, os.Remove(damaged))

	f.variables["DISPENSARY_ACCESS_TOKEN"] = "unknown"
	code, out, stderr := f.run("listen", "--forward-to", to)
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, out)
	assert.Contains(t, stderr, "401")
}
