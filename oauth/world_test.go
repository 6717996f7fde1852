package oauth_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

var (
	usSandbox = api.Environment{Region: api.US, Stage: api.Sandbox}
	caSandbox = api.Environment{Region: api.Canada, Stage: api.Sandbox}
)

const user = "user-17"

func config(p http.RoundTripper) oauth.Config {
	return oauth.Config{
		Site:     api.Site{Environment: usSandbox, BaseURL: "https://platform.example/api", AuthURL: "https://login.platform.example"},
		ClientID: "client-1", ClientSecret: "hush-hush", RedirectURL: "https://ehr.example/callback?tenant=7",
		HTTPClient: &http.Client{Transport: p},
	}
}

func newClient(t testing.TB, p http.RoundTripper, changes ...func(*oauth.Config)) *oauth.Client {
	t.Helper()
	c := config(p)
	for _, change := range changes {
		change(&c)
	}
	client, err := oauth.New(c)
	require.NoError(t, err)
	return client
}

// world is one replica, its platform and its store with one connected user.
type world struct {
	platform *platform
	client   *oauth.Client
	store    *brittleStore
	source   *oauth.UserTokenSource
	logs     *logBuffer
}

// newWorld connects the user with the token access-0/refresh-0, which ends after
// the given time.
func newWorld(t *testing.T, mode rotation, left time.Duration) *world {
	t.Helper()
	w := &world{platform: newPlatform(mode), store: newBrittleStore(), logs: &logBuffer{}}
	w.client = w.replica(t)
	w.source = w.client.TokenSource(w.store, user)
	w.save(t, firstToken(left))
	return w
}

// replica returns another client of the same platform, as on another machine.
func (w *world) replica(t *testing.T) *oauth.Client {
	return newClient(t, w.platform, func(c *oauth.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
}

func (w *world) save(t *testing.T, token oauth.Token) oauth.Record {
	t.Helper()
	record, err := w.store.Save(t.Context(), w.client.Key(user), token)
	require.NoError(t, err)
	return record
}

func (w *world) record(t *testing.T) oauth.Record {
	t.Helper()
	record, err := w.store.Store.Load(t.Context(), w.client.Key(user))
	require.NoError(t, err)
	return record
}

func firstToken(left time.Duration) oauth.Token {
	return oauth.Token{
		AccessToken: "access-0", RefreshToken: "refresh-0", TokenType: "Bearer",
		CreatedAt: time.Now().Add(left - oauth.DefaultLifetime).UTC(), ExpiresAt: time.Now().Add(left), Lifetime: oauth.DefaultLifetime,
		Scope: "catalog:read clinic:read", ResourceOwner: oauth.ResourceOwner{ID: "prac-1", Type: oauth.OwnerPractitioner},
		Environment: usSandbox,
	}
}

// requireToken asserts that the source gives this access token.
func (w *world) requireToken(t *testing.T, want api.Secret) {
	t.Helper()
	token, err := w.source.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, want.Reveal(), token.Secret.Reveal())
}

// requireReauthorize asserts that only the user can help, and why.
func requireReauthorize(t *testing.T, err error, reason oauth.Reason) *oauth.ReauthorizeError {
	t.Helper()
	require.ErrorIs(t, err, oauth.ErrReauthorize)
	var e *oauth.ReauthorizeError
	require.ErrorAs(t, err, &e)
	require.Equal(t, reason, e.Reason)
	return e
}

// logBuffer collects log lines from any goroutine.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// bubble runs a test in parallel, with a clock of its own that moves only when
// everything waits.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// read returns the body of an answer.
func read(t testing.TB, response *http.Response) string {
	t.Helper()
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func newLogger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
