package sqlstore_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
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
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// fleet is a platform, a database, and the processes of a program.
type fleet struct {
	*testing.T
	database database
	fake     *dispensarytest.Server
	platform http.Handler // of the fake
	front    *httptest.Server
	store    tokenstore.Store
	keys     api.Secret
	users    int
	mu       sync.Mutex
	hook     func(replica string, when moment) // called at the moments of each refresh
}

// moment is a point during a refresh, as seen by the platform.
type moment string

const (
	beforeTheRefresh moment = "before the refresh"
	beforeTheAnswer  moment = "before the response"
	afterTheAnswer   moment = "after the response"
)

func newFleet(t *testing.T, d database, rotation behavior.Variant, users int) *fleet {
	t.Helper()
	f := &fleet{
		T: t, database: d, keys: newKeys(t), users: users,
		fake: dispensarytest.New(t, dispensarytest.WithBehavior(rotation), dispensarytest.WithTuning(dispensarytest.Tuning{JournalLimit: 100_000})),
	}
	f.platform = f.fake.Handler()
	f.front = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.front.Close)
	f.store = d.sealed(t, d.migrated(t), f.keys)
	return f
}

// serve forwards requests to the platform and calls the hook around refreshes.
func (f *fleet) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/oauth/token") {
		f.platform.ServeHTTP(w, r)
		return
	}
	name, _, _ := strings.Cut(r.UserAgent(), " ")
	f.callHook(name, beforeTheRefresh)
	answer := httptest.NewRecorder()
	f.platform.ServeHTTP(answer, r)
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

// expire gives every user an expired token with a valid refresh token.
func (f *fleet) expire() {
	f.Helper()
	environment := f.fake.Site().Environment
	for i := range f.users {
		granted := f.fake.Tokens.Issue(f.fake.Users()[0])
		_, err := f.store.Save(f.Context(), tokenstore.Key{Environment: environment, User: userName(i)}, oauth.Token{
			AccessToken: api.NewSecret(granted.AccessToken), RefreshToken: api.NewSecret(granted.RefreshToken), TokenType: "Bearer",
			Scope: strings.Join(granted.Scopes, " "), Lifetime: defaults.TokenLifetime, UsedAt: time.Now(), Environment: environment,
			ExpiresAt: time.Now().Add(-time.Hour),
		})
		require.NoError(f, err)
	}
}

// application returns your application's config for the platform's front server.
func (f *fleet) application() oauth.Config {
	site, app := f.fake.Site(), f.fake.Application()
	site.BaseURL, site.AuthURL = f.front.URL+"/api", f.front.URL
	return oauth.Config{Site: site, ClientID: app.ClientID, ClientSecret: api.NewSecret(app.ClientSecret), RedirectURL: app.RedirectURI}
}

// process is a running replica.
type process struct {
	fleet   *fleet
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// start runs the test binary again as a replica and waits until it is ready. If the test
// fails, the replica is killed.
func (f *fleet) start(name string, connections int, leaseTTL time.Duration) *process {
	f.Helper()
	app := f.application()
	text, err := json.Marshal(order{
		Name: name, Dialect: f.database.dialect, Driver: f.database.driver, Source: f.database.name, Connections: connections,
		Keys: f.keys.Reveal(), Site: app.Site,
		ClientID: app.ClientID, ClientSecret: app.ClientSecret.Reveal(), RedirectURL: app.RedirectURL, LeaseTTL: leaseTTL, Users: f.users,
	})
	require.NoError(f, err)
	p := &process{fleet: f, name: name, command: exec.Command(os.Args[0])}
	p.command.Env, p.command.Stderr = append(os.Environ(), serverVariable+"="+string(text)), os.Stderr
	p.in, err = p.command.StdinPipe()
	require.NoError(f, err)
	out, err := p.command.StdoutPipe()
	require.NoError(f, err)
	p.out = json.NewDecoder(out)
	require.NoError(f, p.command.Start())
	f.Cleanup(func() {
		if p.command.ProcessState == nil { // the test failed before its end
			_ = p.command.Process.Kill()
			_ = p.command.Wait()
		}
	})
	p.report() // the replica is ready
	return p
}

// begin sends a task to the replica. report waits for its result.
func (p *process) begin(t task) {
	p.fleet.Helper()
	require.NoError(p.fleet, json.NewEncoder(p.in).Encode(t), p.name)
}

func (p *process) report() (r report) {
	p.fleet.Helper()
	require.NoError(p.fleet, p.out.Decode(&r), p.name)
	return r
}

// end stops a replica after its task.
func (p *process) end() {
	p.fleet.Helper()
	require.NoError(p.fleet, p.in.Close())
	require.NoError(p.fleet, p.command.Wait(), p.name)
}

// refreshes returns the number of refreshes on the platform, and how many of them it rejected.
func (f *fleet) refreshes() (all, refused int) {
	for _, request := range f.fake.Journal.Requests("oauth.token") {
		all++
		if request.Status != http.StatusOK {
			refused++
		}
	}
	return all, refused
}

// requireConnected requires every user to be still connected.
func (f *fleet) requireConnected(store tokenstore.Store) {
	f.Helper()
	active, err := store.List(f.Context(), tokenstore.Listing{Environment: f.fake.Site().Environment, State: tokenstore.StateActive, Limit: f.users + 1})
	require.NoError(f, err)
	assert.Len(f, active, f.users, "number of connected users")
}

// size is the number of processes, goroutines and users of a fleet, and the moments at which a
// process is killed.
type size struct {
	processes, goroutines, users int

	kills []moment
}

// sizeOn returns the size for a database. SQLite has only one writer at a time.
func sizeOn(dialect sqlstore.Dialect) size {
	all := []moment{beforeTheRefresh, beforeTheAnswer, afterTheAnswer}
	s := testsize.Of(size{3, 20, 60, []moment{all[rand.IntN(len(all))]}}, size{4, 250, 1000, all})
	if dialect == sqlstore.SQLite {
		s.processes, s.goroutines = 2, min(s.goroutines, 100)
	}
	return s
}

// eachFleet runs a test on one database after the other, because each run needs the whole
// machine.
func eachFleet(t *testing.T, play func(t *testing.T, d database, s size)) {
	t.Helper()
	for _, dialect := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(string(dialect), func(t *testing.T) { play(t, newDatabase(t, dialect), sizeOn(dialect)) })
	}
}

// visits is the number of times that each process requests each user's token.
const visits = 2

// All processes find all tokens expired, and the platform invalidates a refresh token at once.
// Each user's token is refreshed exactly once.
func TestReplicasRefreshEachUserOnce(t *testing.T) { //nolint:paralleltest // needs the whole machine
	testsize.SkipUnderRace(t)
	eachFleet(t, func(t *testing.T, d database, size size) {
		f := newFleet(t, d, behavior.RefreshRotationImmediate, size.users)
		f.expire()
		began := time.Now()
		slowest := f.run(size, visits)
		all, refused := f.refreshes()
		t.Logf("%d processes, %d users: %d refreshes, %d rejected, slowest call %v, %v in total",
			size.processes, size.users, all, refused, slowest.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		assert.Equal(t, size.users, all)
		assert.Zero(t, refused)
		f.requireConnected(f.store)
	})
}

// run lets all processes work at once and returns the longest duration of a call.
func (f *fleet) run(size size, visits int) time.Duration {
	f.Helper()
	var processes []*process
	for i := range size.processes {
		processes = append(processes, f.start(replicaName(i), connections, defaults.LeaseTTL))
	}
	for _, p := range processes {
		p.begin(task{Goroutines: size.goroutines, Visits: visits})
	}
	return f.endAll(processes)
}

// connections is the number of database connections of each process.
const connections = 8

func replicaName(n int) string { return fmt.Sprintf("replica-%d", n) }

func (f *fleet) endAll(processes []*process) (slowest time.Duration) {
	f.Helper()
	for _, p := range processes {
		r := p.report()
		assert.Empty(f, r.Failures, p.name)
		assert.Positive(f, r.Calls)
		slowest = max(slowest, r.Slowest)
		p.end()
	}
	return slowest
}

// One process is killed during a refresh. No user has to authorize again, and every other
// process gets the token of every user.
func TestReplicasSurviveAKill(t *testing.T) { //nolint:paralleltest // needs the whole machine
	testsize.SkipUnderRace(t)
	eachFleet(t, func(t *testing.T, d database, size size) {
		f := newFleet(t, d, behavior.RefreshRotationGrace, size.users)
		for _, when := range size.kills {
			before, _ := f.refreshes()
			f.expire()
			nth, slowest := f.runAndKill(size, when)
			all, refused := f.refreshes()
			t.Logf("killed %s %d: %d refreshes, slowest call %v", when, nth, all-before, slowest.Round(time.Millisecond))
			assert.Zero(t, refused)
			assert.GreaterOrEqual(t, all-before, size.users)
			f.requireConnected(f.store)
		}
	})
}

// victimLease is the lease duration of the killed process. It is short, because the other
// processes wait until its leases expire, in real time. They use the default duration.
const victimLease = 2 * time.Second

// runAndKill kills one process at a moment of its nth refresh. The other processes start after
// its first refresh has begun.
func (f *fleet) runAndKill(size size, when moment) (nth int, slowest time.Duration) {
	f.Helper()
	victim := f.start(replicaName(0), connections, victimLease)
	var others []*process
	for i := range size.processes - 1 {
		others = append(others, f.start(replicaName(i+1), connections, defaults.LeaseTTL))
	}
	nth = 1 + rand.N(size.goroutines/2)
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	kill := sync.OnceFunc(func() { assert.NoError(f, victim.command.Process.Kill()) })
	var mu sync.Mutex
	seen := 0
	f.setHook(func(name string, now moment) {
		if name != victim.name {
			return
		}
		begin()
		mu.Lock()
		defer mu.Unlock()
		if now == when {
			seen++
		}
		if seen >= nth {
			kill()
		}
	})
	visits := task{Goroutines: size.goroutines, Visits: 1}
	victim.begin(visits)
	<-begun
	for _, p := range others {
		p.begin(visits)
	}
	slowest = f.endAll(others)
	f.setHook(nil)
	kill()
	_ = victim.command.Wait()
	return nth, slowest
}
