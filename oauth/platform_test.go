package oauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
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

// rotation is what the platform does to the old refresh token of a refresh.
type rotation string

const (
	none      rotation = "none"      // it stays the same
	grace     rotation = "grace"     // it dies when the new access token is first used
	immediate rotation = "immediate" // it dies at once
)

// platform is the token endpoint of the platform, in memory: a RoundTripper, so
// that time inside synctest bubbles moves by itself.
type platform struct {
	rotation rotation
	delay    time.Duration // before every answer

	mu     sync.Mutex
	grants map[string]bool   // refresh tokens that are good
	before map[string]string // access token → the refresh token that bought it
	issued int
	calls  []map[string]string // bodies of the token calls, in order
	routes []string
	faults []fault // one is used up by each call
}

// fault answers a call instead of the platform; handle is what the platform
// would have done.
type fault func(handle func() *http.Response) (*http.Response, error)

func newPlatform(mode rotation) *platform {
	return &platform{rotation: mode, grants: map[string]bool{"refresh-0": true}, before: map[string]string{}}
}

func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]string
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.calls = append(p.calls, body)
	p.routes = append(p.routes, r.URL.Path)
	var broken fault
	if len(p.faults) > 0 {
		broken, p.faults = p.faults[0], p.faults[1:]
	}
	p.mu.Unlock()
	select {
	case <-time.After(p.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	handle := func() *http.Response { return p.handle(body) }
	if broken != nil {
		return broken(handle)
	}
	return handle(), nil
}

func (p *platform) handle(body map[string]string) *http.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := body["refresh_token"]
	if body["grant_type"] == "refresh_token" && !p.grants[old] {
		return respond(http.StatusUnauthorized, `{"error":"invalid_grant","error_description":"unknown"}`)
	}
	p.issued++
	access, refresh := fmt.Sprintf("access-%d", p.issued), fmt.Sprintf("refresh-%d", p.issued)
	switch p.rotation {
	case none:
		refresh = old
	case immediate:
		delete(p.grants, old)
	}
	p.grants[refresh], p.before[access] = true, old
	return respond(http.StatusOK, fmt.Sprintf(`{"oauth":{"access_token":%q,"refresh_token":%q,"token_type":"Bearer",
		"expires_in":7200,"scope":"catalog:read clinic:read","created_at":%q,
		"resource_owner":{"id":"prac-1","type":"Practitioner"}}}`, access, refresh, time.Now().UTC().Format(time.RFC3339)))
}

func respond(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Request-Id": {"req-1"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func (p *platform) inject(faults ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, faults...)
}

// replace drops the faults that are left for these.
func (p *platform) replace(faults ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// sent returns the bodies of all calls so far.
func (p *platform) sent() []map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]string(nil), p.calls...)
}

// use is a call with an access token: in grace it kills the refresh token that
// bought it.
func (p *platform) use(access api.Secret) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rotation == grace {
		delete(p.grants, p.before[access.Reveal()])
	}
}

// kill makes the platform forget a refresh token.
func (p *platform) kill(refresh string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.grants, refresh)
}

// answers is a fault that answers with a status and a body, and does nothing.
func answers(status int, body string) fault {
	return func(func() *http.Response) (*http.Response, error) { return respond(status, body), nil }
}

// retryAfter is a fault that asks to come back later.
func retryAfter(seconds string) fault {
	return func(func() *http.Response) (*http.Response, error) {
		response := respond(http.StatusTooManyRequests, `{"error":"slow down"}`)
		response.Header.Set("Retry-After", seconds)
		return response, nil
	}
}

// loses is a fault after which the platform has done its work and the answer
// does not arrive.
func loses(handle func() *http.Response) (*http.Response, error) {
	handle()
	return nil, errors.New("connection reset")
}

// drops is a fault in which nothing was done and no answer arrives.
func drops(func() *http.Response) (*http.Response, error) {
	return nil, errors.New("connection reset")
}

func times(n int, f fault) []fault {
	all := make([]fault, n)
	for i := range all {
		all[i] = f
	}
	return all
}

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

// brittleStore is a memory store that can be made to fail, by method.
type brittleStore struct {
	oauth.Store
	slow time.Duration // before every method
	mu   sync.Mutex
	fail map[string]error
	hits map[string]int
}

func newBrittleStore() *brittleStore {
	return &brittleStore{Store: oauth.NewMemoryStore(), fail: map[string]error{}, hits: map[string]int{}}
}

func (s *brittleStore) breaks(method string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[method] = err
}

func (s *brittleStore) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[method]
}

func (s *brittleStore) check(method string) error {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[method]++
	return s.fail[method]
}

func (s *brittleStore) Load(ctx context.Context, key oauth.Key) (oauth.Record, error) {
	if err := s.check("Load"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Load(ctx, key)
}

func (s *brittleStore) Save(ctx context.Context, key oauth.Key, token oauth.Token) (oauth.Record, error) {
	if err := s.check("Save"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Save(ctx, key, token)
}

func (s *brittleStore) Delete(ctx context.Context, key oauth.Key) error {
	if err := s.check("Delete"); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

func (s *brittleStore) List(ctx context.Context, listing oauth.Listing) ([]oauth.Record, error) {
	if err := s.check("List"); err != nil {
		return nil, err
	}
	return s.Store.(oauth.Lister).List(ctx, listing)
}

func (s *brittleStore) ClaimDue(ctx context.Context, due oauth.Due) ([]oauth.Record, error) {
	if err := s.check("ClaimDue"); err != nil {
		return nil, err
	}
	return s.Store.(oauth.Claimer).ClaimDue(ctx, due)
}

func (s *brittleStore) Lease(ctx context.Context, lease oauth.Lease, ttl time.Duration) (oauth.Record, error) {
	if err := s.check("Lease"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Lease(ctx, lease, ttl)
}

func (s *brittleStore) Commit(ctx context.Context, lease oauth.Lease, token oauth.Token) (oauth.Record, error) {
	if err := s.check("Commit"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Commit(ctx, lease, token)
}

func (s *brittleStore) Fail(ctx context.Context, lease oauth.Lease, reason oauth.Reason) (oauth.Record, error) {
	if err := s.check("Fail"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Fail(ctx, lease, reason)
}

func (s *brittleStore) Release(ctx context.Context, lease oauth.Lease) error {
	if err := s.check("Release"); err != nil {
		return err
	}
	return s.Store.Release(ctx, lease)
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
