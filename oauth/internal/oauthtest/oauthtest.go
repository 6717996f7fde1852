// Package oauthtest supports the tests of package oauth and its subpackages. It contains a
// token endpoint in memory, a store with injected failures, and the common settings.
package oauthtest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
)

// The environments in the tests.
var (
	USSandbox = api.USSandbox
	CASandbox = api.CanadaSandbox
)

// User is the connected user.
const User = "user-17"

// Config returns the settings of an application that sends its requests through transport.
func Config(transport http.RoundTripper) oauth.Config {
	return oauth.Config{
		Site:     api.Site{Environment: USSandbox, BaseURL: "https://platform.example/api", AuthURL: "https://login.platform.example"},
		ClientID: "client-1", ClientSecret: api.NewSecret("hush-hush"), RedirectURL: "https://ehr.example/callback?tenant=7",
		Transport: transport,
	}
}

// NewClient returns a client with [Config] after changes.
func NewClient(t testing.TB, transport http.RoundTripper, changes ...func(*oauth.Config)) *oauth.Client {
	t.Helper()
	c := Config(transport)
	for _, change := range changes {
		change(&c)
	}
	client, err := oauth.New(c)
	require.NoError(t, err)
	return client
}

// FirstToken returns the token access-0/refresh-0, which expires after left.
func FirstToken(left time.Duration) oauth.Token {
	return oauth.Token{
		AccessToken: api.NewSecret("access-0"), RefreshToken: api.NewSecret("refresh-0"), TokenType: "Bearer",
		CreatedAt: time.Now().Add(left - defaults.TokenLifetime).UTC(), ExpiresAt: time.Now().Add(left), Lifetime: defaults.TokenLifetime,
		Scope: "catalog:read clinic:read", ResourceOwner: oauth.ResourceOwner{ID: "prac-1", Type: oauth.ResourceOwnerPractitioner},
		Environment: USSandbox,
	}
}

// RoundTripper makes a transport from a function.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Canary is part of every secret in a test. It must not appear in any output.
const Canary = "c4n4ry"

// RequireClean prints, encodes and logs a value in many forms and fails if the output contains
// [Canary]. It leaves out %p, because fmt calls no method for %p and vet rejects %p for
// anything but pointers.
func RequireClean(t testing.TB, name string, value any) {
	t.Helper()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t", "%T", "%10.2s", "%08b"} {
		fmt.Fprintf(&out, verb+"\n", value)
		fmt.Fprintf(&out, verb+"\n", &value)
	}
	fmt.Fprintln(&out, value)
	data, _ := json.Marshal(value)
	out.Write(data)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("canary", "value", value, slog.Group("group", "value", value))
	}
	text := out.String()
	for _, form := range []string{Canary, fmt.Sprintf("%x", Canary), fmt.Sprintf("%X", Canary)} {
		require.NotContains(t, text, form, name)
	}
}

// Bubble runs a test in parallel on a fake clock, which advances only while every goroutine
// waits.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// Each runs test for each case as a subtest in a bubble.
func Each[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { Bubble(t, func(t *testing.T) { test(t, c) }) })
	}
}

// ByName returns cases for [Each], named by their own text.
func ByName[C any](cases ...C) map[string]C {
	named := map[string]C{}
	for _, c := range cases {
		named[fmt.Sprint(c)] = c
	}
	return named
}

// ReadBody returns the body of a response and closes it.
func ReadBody(t testing.TB, response *http.Response) string {
	t.Helper()
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// ExampleClient returns a client of a platform that issues tokens.
func ExampleClient() *oauth.Client {
	config := Config(NewPlatform(RotateAtOnce))
	config.RedirectURL = "https://ehr.example/dispensary/callback"
	config.Scopes = []string{"clinic:read", "catalog:read"}
	client, err := oauth.New(config)
	if err != nil {
		panic(err)
	}
	return client
}
