package sqlstore_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/seal"
)

// fleet is a platform, a database, and the processes that work on them.
type fleet struct {
	*testing.T
	database database
	fake     *dispensarytest.Server
	front    *httptest.Server
	store    tokens.Store
	keys     api.Secret
	users    int
	mu       sync.Mutex
	hook     func(replica string, when moment) // called at each refresh
}

// moment is a point of a refresh, as the platform sees it.
type moment string

const (
	beforeTheRefresh moment = "before the platform has refreshed"
	beforeTheAnswer  moment = "before it has answered"
	afterTheAnswer   moment = "after it has answered"
)

func newFleet(t *testing.T, d database, rotation dispensarytest.Behavior, users int) *fleet {
	t.Helper()
	key, err := seal.GenerateKey("2026")
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	f := &fleet{
		T: t, database: d, keys: key.Text(), users: users,
		fake: dispensarytest.New(t, dispensarytest.WithBehavior(rotation), dispensarytest.WithJournalLimit(100_000)),
	}
	f.front = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.front.Close)
	inner, err := sqlstore.New(d.migrated(t), d.dialect, sqlstore.Config{TablePrefix: d.prefix})
	require.NoError(t, err)
	f.store = tokens.Sealed(inner, ring)
	return f
}

// serve forwards requests to the platform and calls the hook around refreshes.
func (f *fleet) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/oauth/token") {
		f.fake.Handler().ServeHTTP(w, r)
		return
	}
	name := r.UserAgent()
	f.callHook(name, beforeTheRefresh)
	answer := httptest.NewRecorder()
	f.fake.Handler().ServeHTTP(answer, r)
	f.callHook(name, beforeTheAnswer)
	for field, values := range answer.Header() {
		w.Header()[field] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	_ = http.NewResponseController(w).Flush()
	f.callHook(name, afterTheAnswer)
}

func (f *fleet) callHook(replica string, when moment) {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(replica, when)
	}
}

func (f *fleet) setHook(hook func(replica string, when moment)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// expire gives every user a token that has ended, with a good refresh token.
func (f *fleet) expire() {
	f.Helper()
	environment := f.fake.Site().Environment
	for i := range f.users {
		granted := f.fake.Tokens.Issue(f.fake.Users()[0])
		_, err := f.store.Save(f.Context(), tokens.Key{Environment: environment, User: userName(i)}, oauth.Token{
			AccessToken: api.Secret(granted.AccessToken), RefreshToken: api.Secret(granted.RefreshToken), TokenType: "Bearer",
			ExpiresAt: time.Now().Add(-time.Hour), Lifetime: oauth.DefaultLifetime, Environment: environment,
		})
		require.NoError(f, err)
	}
}

// process is a replica that runs.
type process struct {
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// start starts a replica and waits until it is ready.
func (f *fleet) start(name string, goroutines, visits int, leaseTTL time.Duration) *process {
	f.Helper()
	app := f.fake.Application()
	text, err := json.Marshal(order{
		Name: name, Dialect: f.database.dialect, Driver: f.database.driver, Source: f.database.name, Prefix: f.database.prefix,
		Keys: f.keys.Reveal(), Environment: f.fake.Site().Environment, Origin: f.front.URL,
		ClientID: app.ClientID, ClientSecret: app.ClientSecret, RedirectURL: app.RedirectURI,
		LeaseTTL: leaseTTL, Users: f.users, Goroutines: goroutines, Visits: visits,
	})
	require.NoError(f, err)
	p := &process{name: name}
	p.command, p.in, p.out = startChild(f, replicaVariable+"="+string(text))
	line, err := p.out.ReadString('\n')
	require.NoError(f, err)
	require.Equal(f, "ready\n", line)
	return p
}

// begin lets a replica work; its result is what end waits for.
func (f *fleet) begin(p *process) {
	f.Helper()
	_, err := io.WriteString(p.in, "go\n")
	require.NoError(f, err)
}

// end waits for a replica and returns its report.
func (f *fleet) end(p *process) report {
	f.Helper()
	var r report
	require.NoError(f, json.NewDecoder(p.out).Decode(&r), p.name)
	require.NoError(f, p.command.Wait(), p.name)
	assert.Empty(f, r.Failures, p.name)
	assert.Positive(f, r.Calls)
	return r
}

// refreshes returns how many refreshes reached the platform, and how many of
// them it refused.
func (f *fleet) refreshes() (all, refused int) {
	for _, request := range f.fake.Journal().Of("oauth.token") {
		all++
		if request.Status != http.StatusOK {
			refused++
		}
	}
	return all, refused
}

// requireConnected asserts that no user was logged out.
func (f *fleet) requireConnected(store tokens.Lister) {
	f.Helper()
	active, err := store.List(f.Context(), tokens.Listing{Environment: f.fake.Site().Environment, State: tokens.StateActive, Limit: f.users + 1})
	require.NoError(f, err)
	assert.Len(f, active, f.users, "users who are connected")
}

// startChild starts the test binary once more, with a variable that says what it is
// for. It is killed with a test that fails.
func startChild(t testing.TB, variable string, args ...string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), variable)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		if command.ProcessState == nil { // the test failed before its end
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	})
	return command, in, bufio.NewReader(out)
}
