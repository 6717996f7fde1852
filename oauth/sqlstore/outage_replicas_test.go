package sqlstore_test

import (
	"bufio"
	"database/sql"
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
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/seal"
)

const (
	// outageProcess makes the test binary a process that serves users; see
	// TestOutageProcess.
	outageProcess = "DISPENSARY_TEST_OUTAGE_PROCESS"

	// outageLength is how long the platform is out, for example 10m; 3s if not set.
	outageLength = "DISPENSARY_TEST_OUTAGE"
)

// brokenPlatform stands before the platform and answers in its place while it lasts.
type brokenPlatform struct {
	kind        string
	api, tokens bool
	platform    http.Handler

	on         atomic.Bool
	tokenCalls atomic.Int64 // while it lasts
}

func (o *brokenPlatform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ofTokens := strings.HasSuffix(r.URL.Path, "/oauth/token")
	if o.on.Load() && ofTokens {
		o.tokenCalls.Add(1)
	}
	if !o.on.Load() || (ofTokens && !o.tokens) || (!ofTokens && !o.api) {
		o.platform.ServeHTTP(w, r)
		return
	}
	status, body := http.StatusOK, "<html><body>We will be back soon</body></html>"
	switch o.kind {
	case "401", "403", "429", "500":
		_, _ = fmt.Sscan(o.kind, &status)
		body = `{"error":"out of order"}`
	case "time-out":
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client leave
		<-r.Context().Done()
		return
	}
	if o.kind == "429" {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// outageOrder is the input of a process: the database, the platform, the users.
type outageOrder struct {
	Source, Prefix string
	KeyText        string
	Site           dispensary.Site
	ClientID       string
	ClientSecret   string
	RedirectURL    string
	Users          int
}

// outageReport is what a process has seen in one of its tasks.
type outageReport struct {
	Calls, Failed int
	Broken        []string // users whose calls did not work in the end
	Reported      []string // users for whom there was a MustReauthorize event, ever
	Slowest       time.Duration
}

// Whatever goes wrong at the platform for a while, afterwards every user works again
// without anybody's help, but those whose refresh token the token endpoint itself has
// refused: with four processes on PostgreSQL. The same in fake time, and of every
// length, is in the root package.
func TestProcessesOutliveOutages(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	length, err := time.ParseDuration(envOr(outageLength, "3s"))
	require.NoError(t, err)
	address(t, postgresVariable)
	all := []string{"401", "403", "429", "500", "HTML", "time-out"}
	users := testsize.Of(40, 1000)
	kinds := testsize.Of(map[string][]string{"API": {"401"}}, map[string][]string{"API": all, "token endpoint": all, "both": all})
	if length > time.Minute {
		users = 60 // for the rows run at one time
	}
	var mu sync.Mutex
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "out\tkind\tcalls\tfailed\ttoken requests\trevoked\tmarked\tmarked wrongly\tstill broken\tall work after")
	t.Run("rows", func(t *testing.T) {
		for _, place := range []struct {
			name        string
			api, tokens bool
		}{{"API", true, false}, {"token endpoint", false, true}, {"both", true, true}} {
			for _, kind := range kinds[place.name] {
				t.Run(place.name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					row := outlive(t, &brokenPlatform{kind: kind, api: place.api, tokens: place.tokens}, users, length)
					mu.Lock()
					defer mu.Unlock()
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", place.name, kind, row)
				})
			}
		}
	})
	_ = w.Flush()
	t.Logf("\n4 processes on PostgreSQL, %d users, out for %s\n%s", users, length, table.String())
}

func envOr(name, other string) string {
	if text := os.Getenv(name); text != "" {
		return text
	}
	return other
}

// outlive lets four processes work through an outage, and returns the row of it.
func outlive(t *testing.T, o *brokenPlatform, users int, length time.Duration) string {
	t.Helper()
	d := newDatabase(t, sqlstore.PostgreSQL)
	fake := dispensarytest.New(t, dispensarytest.WithBehavior(dispensarytest.RefreshRotationImmediate), dispensarytest.WithJournalLimit(100))
	o.platform = fake.Handler()
	front := httptest.NewServer(o)
	t.Cleanup(front.Close)
	key, err := seal.GenerateKey("2026")
	require.NoError(t, err)
	app, site := fake.Application(), fake.Site()
	site.BaseURL, site.AuthURL = front.URL+"/api", front.URL
	order := outageOrder{
		Source: d.name, Prefix: d.prefix, KeyText: key.Text().Reveal(), Site: site,
		ClientID: app.ClientID, ClientSecret: app.ClientSecret, RedirectURL: app.RedirectURI, Users: users,
	}
	db := d.migrated(t)
	db.SetMaxOpenConns(1)
	store, err := order.store(db)
	require.NoError(t, err)
	var processes []*outageChild
	for range 4 {
		processes = append(processes, startOutageChild(t, order))
	}
	connectForOutage(t, store, fake, users, length)
	o.on.Store(true)
	for _, p := range processes {
		p.send("work " + length.String())
	}
	revoked := revokeSome(t, store, fake, users)
	var calls, failed int
	for _, p := range processes {
		r := p.report()
		calls, failed = calls+r.Calls, failed+r.Failed
	}
	o.on.Store(false)
	tokenCalls := o.tokenCalls.Load()
	for _, p := range processes {
		p.send("recover")
	}
	broken, wrongly, reported := 0, 0, map[string]bool{}
	var slowest time.Duration
	for _, p := range processes {
		r := p.report()
		slowest = max(slowest, r.Slowest)
		for _, name := range r.Broken {
			if !revoked[name] {
				broken++
			}
		}
		for _, name := range r.Reported {
			reported[name] = true
		}
		p.send("end")
	}
	for _, p := range processes {
		require.NoError(t, p.command.Wait())
	}
	records, err := store.(tokens.Lister).List(t.Context(), tokens.Listing{Environment: site.Environment, State: tokens.StateReauthorize, Limit: users})
	require.NoError(t, err)
	marked := 0
	for _, record := range records {
		reported[record.Key.User] = true
		if revoked[record.Key.User] {
			marked++
		}
	}
	for name := range reported {
		if !revoked[name] {
			wrongly++
		}
	}
	assert.Zero(t, broken, "never worked again")
	assert.Zero(t, wrongly, "marked and not revoked")
	assert.Equal(t, len(revoked), marked, "revoked, and marked for it")
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s", calls, failed, tokenCalls, len(revoked), marked, wrongly, broken, slowest.Round(time.Second))
}

// connectForOutage gives every user a token that ends before the outage, in its course
// or after it.
func connectForOutage(t *testing.T, store tokens.Store, fake *dispensarytest.Server, users int, length time.Duration) {
	t.Helper()
	environment := fake.Site().Environment
	for i := range users {
		granted := fake.Tokens.Issue(model.User{})
		_, err := store.Save(t.Context(), tokens.Key{Environment: environment, User: userName(i)}, oauth.Token{
			AccessToken: dispensary.Secret(granted.AccessToken), RefreshToken: dispensary.Secret(granted.RefreshToken), TokenType: "Bearer",
			Scope: strings.Join(granted.Scopes, " "), Lifetime: oauth.DefaultLifetime, UsedAt: time.Now(), Environment: environment,
			ExpiresAt: time.Now().Add(rand.N(5*time.Second + 2*length)),
		})
		require.NoError(t, err)
	}
}

// revokeSome ends the consent of one user in twenty at the platform.
func revokeSome(t *testing.T, store tokens.Store, fake *dispensarytest.Server, users int) map[string]bool {
	t.Helper()
	app := fake.Application()
	direct, err := oauth.New(oauth.Config{
		Site: fake.Site(), ClientID: app.ClientID, ClientSecret: dispensary.Secret(app.ClientSecret), RedirectURL: app.RedirectURI,
	})
	require.NoError(t, err)
	revoked := map[string]bool{}
	for i := 3; i < users; i += 20 {
		record, err := store.Load(t.Context(), tokens.Key{Environment: direct.Environment(), User: userName(i)})
		require.NoError(t, err)
		require.NoError(t, direct.Revoke(t.Context(), record.Token))
		revoked[userName(i)] = true
	}
	return revoked
}

func (o outageOrder) store(db *sql.DB) (tokens.Store, error) {
	ring, err := seal.ParseKeyRing(dispensary.Secret(o.KeyText))
	if err != nil {
		return nil, err
	}
	inner, err := sqlstore.New(db, sqlstore.PostgreSQL, sqlstore.Config{TablePrefix: o.Prefix})
	if err != nil {
		return nil, err
	}
	return tokens.Sealed(inner, ring), nil
}

// outageChild is a process that runs.
type outageChild struct {
	t       *testing.T
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func startOutageChild(t *testing.T, order outageOrder) *outageChild {
	t.Helper()
	text, err := json.Marshal(order)
	require.NoError(t, err)
	p := &outageChild{t: t}
	p.command, p.in, p.out = startChild(t, outageProcess+"="+string(text), "-test.run=^TestOutageProcess$")
	p.report() // it is ready
	return p
}

func (p *outageChild) send(task string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, task+"\n")
	require.NoError(p.t, err)
}

func (p *outageChild) report() outageReport {
	p.t.Helper()
	line, err := p.out.ReadBytes('\n')
	require.NoError(p.t, err)
	var r outageReport
	require.NoError(p.t, json.Unmarshal(line, &r))
	return r
}
