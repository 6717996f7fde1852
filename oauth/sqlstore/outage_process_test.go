package sqlstore_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// outageLength is how long the platform is out, for example 10m; 3s if not set.
const outageLength = "DISPENSARY_TEST_OUTAGE"

// brokenPlatform stands before the platform and answers in its place while it lasts.
type brokenPlatform struct {
	kind        string
	api, tokens bool
	platform    http.Handler

	on atomic.Bool
}

func (o *brokenPlatform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ofTokens := strings.HasSuffix(r.URL.Path, "/oauth/token")
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

// Whatever goes wrong at the platform for a while, afterwards every user works again
// without anybody's help, but those whose refresh token the token endpoint itself has
// refused: with four processes on PostgreSQL. The same in fake time, and of every
// length, is in the root package.
func TestProcessesOutliveOutages(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	testsize.SkipUnderRace(t)
	length, err := time.ParseDuration(envOr(outageLength, "3s"))
	require.NoError(t, err)
	address(t, postgresVariable)
	all := []string{"401", "403", "429", "500", "HTML", "time-out"}
	users := testsize.Of(40, 1000)
	kinds := testsize.Of(map[string][]string{"API": {"401"}}, map[string][]string{"API": all, "token endpoint": all, "both": all})
	if length > time.Minute {
		users = 60 // for the rows run at one time
	}
	t.Run("rows", func(t *testing.T) {
		for _, place := range []struct {
			name        string
			api, tokens bool
		}{{"API", true, false}, {"token endpoint", false, true}, {"both", true, true}} {
			for _, kind := range kinds[place.name] {
				t.Run(place.name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					outlive(t, &brokenPlatform{kind: kind, api: place.api, tokens: place.tokens}, users, length)
				})
			}
		}
	})
}

func envOr(name, other string) string {
	if text := os.Getenv(name); text != "" {
		return text
	}
	return other
}

// outlive lets four processes work through an outage.
func outlive(t *testing.T, o *brokenPlatform, users int, length time.Duration) {
	t.Helper()
	f := newFleet(t, newDatabase(t, sqlstore.PostgreSQL), dispensarytest.RefreshRotationImmediate, users)
	o.platform, f.platform = f.platform, o
	var processes []*process
	for i := range 4 {
		processes = append(processes, f.start(replicaName(i), 1, tokens.DefaultLeaseTTL))
	}
	// Tokens end before the outage, in its course or after it.
	f.connect(func() time.Duration { return rand.N(5*time.Second + 2*length) })
	o.on.Store(true)
	for _, p := range processes {
		p.begin(task{Do: "work", Length: length})
	}
	revoked := f.revokeSome()
	for _, p := range processes {
		r := p.report()
		t.Logf("%s: %d calls in the outage, of which %d failed", p.name, r.Calls, r.Failed)
	}
	o.on.Store(false)
	for _, p := range processes {
		p.begin(task{Do: "recover"})
	}
	reported := map[string]bool{}
	for _, p := range processes {
		r := p.report()
		t.Logf("%s: all users work %s after it", p.name, r.Slowest.Round(time.Second))
		for _, name := range r.Broken {
			assert.True(t, revoked[name], "%s never worked again", name)
		}
		for _, name := range r.Reported {
			reported[name] = true
		}
		p.end()
	}
	marked, err := f.store.List(t.Context(), tokens.Listing{Environment: f.fake.Site().Environment, State: tokens.StateReauthorize, Limit: users})
	require.NoError(t, err)
	assert.Len(t, marked, len(revoked), "revoked, and marked for it")
	for _, record := range marked {
		reported[record.Key.User] = true
	}
	for name := range reported {
		assert.True(t, revoked[name], "%s was marked and not revoked", name)
	}
}

// revokeSome ends the consent of one user in twenty at the platform.
func (f *fleet) revokeSome() map[string]bool {
	f.Helper()
	app := f.application()
	app.Site = f.fake.Site() // past the outage
	direct, err := oauth.New(app)
	require.NoError(f, err)
	revoked := map[string]bool{}
	for i := 3; i < f.users; i += 20 {
		record, err := f.store.Load(f.Context(), tokens.Key{Environment: direct.Environment(), User: userName(i)})
		require.NoError(f, err)
		require.NoError(f, direct.Revoke(f.Context(), record.Token))
		revoked[userName(i)] = true
	}
	return revoked
}
