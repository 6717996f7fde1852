package accounts_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// places are the places of an outage, after which every user must work again without help.
var places = map[string]struct{ api, tokens bool }{
	"API": {api: true}, "token endpoint": {tokens: true}, "both": {api: true, tokens: true},
}

// outage responds instead of the platform during an outage. The platform never receives these
// requests.
type outage struct {
	inner       http.RoundTripper
	kind        string
	api, tokens bool

	on         atomic.Bool
	tokenCalls atomic.Int64 // during the outage
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	ofTokens := strings.HasSuffix(r.URL.Path, "/oauth/token")
	if o.on.Load() && ofTokens {
		o.tokenCalls.Add(1)
	}
	if !o.on.Load() || (ofTokens && !o.tokens) || (!ofTokens && !o.api) {
		return o.inner.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if o.kind == "timeout" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	response := &http.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
	}
	response.StatusCode, _ = strconv.Atoi(o.kind)
	body := `{"error":"out of order"}`
	switch o.kind {
	case "invalid_grant":
		response.StatusCode, body = http.StatusBadRequest, `{"error":"invalid_grant"}`
		response.Header.Set("X-Request-Id", "req-1") // as if the platform itself were wrong
	case "HTML":
		response.StatusCode, body = http.StatusOK, "<html><body>We will be back soon</body></html>"
		response.Header.Set("Content-Type", "text/html")
	case "429":
		response.Header.Set("Retry-After", "5")
	}
	response.Body, response.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return response, nil
}

// outcome is the result of one outage.
type outcome struct {
	Calls, Failed int           // during the outage
	TokenCalls    int           // received during the outage
	Revoked       int           // users with a revoked refresh token
	Marked        int           // revoked users marked afterwards
	WronglyMarked int           // other users ever marked
	Broken        int           // other users without a successful call afterwards
	Slowest       time.Duration // from the end until all others worked on all replicas
}

const replicas = 4

// population returns the number of users in each outage.
func population() int { return testsize.UnderRace(12, testsize.Of(40, 1000)) }

// After an outage of the platform, every user works again without help, except users whose
// refresh token the token endpoint itself has rejected.
func TestAccountsRecoverFromOutages(t *testing.T) {
	t.Parallel()
	for place, of := range places {
		for _, kind := range []string{"401", "403", "429", "500", "HTML", "timeout"} {
			for _, length := range []time.Duration{3 * time.Second, 10 * time.Minute} {
				t.Run(fmt.Sprintf("%s/%s/%s", place, kind, length), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						f := newFleet(t, &outage{kind: kind, api: of.api, tokens: of.tokens}, population())
						got := f.outlive(length)
						t.Logf("%+v", got)
						assert.Zero(t, got.WronglyMarked, "users marked without being revoked")
						assert.Equal(t, got.Revoked, got.Marked, "every revoked user must be marked")
						assert.Zero(t, got.Broken, "users without a successful call after the outage")
						// Each replica replaces a user's token once in 2 minutes. It calls a
						// failing token endpoint once per second, with a retry if there is no
						// response.
						most := f.users * (1 + replicas*int(1+length/(2*time.Minute)))
						if of.tokens {
							most = f.users + 3*replicas*(20+int(length/time.Second))
						}
						assert.LessOrEqual(t, got.TokenCalls, most)
					})
				})
			}
		}
	}
}

// The platform wrongly rejects every refresh token for a while. The second rejection marks a
// user, and all users come back without help.
func TestAccountsRecoverFromMassRejections(t *testing.T) {
	t.Parallel()
	for length, back := range map[time.Duration]time.Duration{
		3 * time.Second: 2 * time.Minute, 10 * time.Minute: 11 * time.Minute, time.Hour: 11 * time.Minute,
	} {
		t.Run(length.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, &outage{kind: "invalid_grant", tokens: true}, 200)
				got := f.outlive(length)
				t.Logf("%+v", got)
				assert.Equal(t, length > time.Minute, got.WronglyMarked > 0)
				assert.Zero(t, got.Broken)
				assert.LessOrEqual(t, got.Slowest, back)
				assert.Equal(t, got.Revoked, got.Marked)
			})
		})
	}
}

// fleet is a platform, its users and the replicas that serve them.
type fleet struct {
	*testing.T
	outage   *outage
	platform *dispensarytest.Server
	store    *tokenstore.MemoryStore
	replicas []*accounts.Accounts
	users    int

	mu     sync.Mutex
	marked map[string]bool // from observers
	calls  int
	failed int
}

func newFleet(t *testing.T, o *outage, users int) *fleet {
	t.Helper()
	f := &fleet{T: t, outage: o, store: tokenstore.NewMemoryStore(), users: users, marked: map[string]bool{}}
	f.platform = dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{JournalLimit: 100}),
		dispensarytest.WithRedirectURI("https://ehr.example.com/dispensary/callback"),
		dispensarytest.WithBehavior(behavior.RefreshRotationImmediate))
	o.inner = f.platform.HTTPClient().Transport
	for range replicas {
		f.replicas = append(f.replicas, f.replica(o))
	}
	return f
}

func (f *fleet) replica(transport http.RoundTripper) *accounts.Accounts {
	f.Helper()
	app := f.platform.Application()
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: f.platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
			RedirectURL: app.RedirectURI, Transport: transport,
		}},
		Tokens: tokens.Config{Store: f.store, Observers: []tokens.Observer{{MustReauthorize: func(_ context.Context, e *tokens.ReauthorizeError) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.marked[e.Key.User] = true
		}}}},
		Options: func(dispensary.Environment) []dispensary.Option {
			return []dispensary.Option{dispensary.WithTransport(transport)}
		},
	})
	require.NoError(f, err)
	return users
}

func (f *fleet) name(i int) string { return fmt.Sprintf("dr-%04d", i) }

// connect stores a token for every user. One in four expires within the first 3 seconds of the
// outage, the others up to 15 minutes later.
func (f *fleet) connect() {
	f.Helper()
	environment := f.platform.Site().Environment
	left := make([]time.Duration, f.users)
	for i := range left {
		left[i] = time.Duration(1+rand.IntN(15*60)) * time.Second
		if i%4 == 0 {
			left[i] = time.Duration(1+rand.IntN(3)) * time.Second
		}
	}
	order := make([]int, f.users) // the oldest token is issued first
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(left[a], left[b]) })
	start := time.Now()
	for _, i := range order {
		time.Sleep(time.Until(start.Add(left[i])))
		granted := f.platform.Tokens.Issue(model.User{})
		_, err := f.store.Save(f.Context(), tokenstore.Key{Environment: environment, User: f.name(i)}, oauth.Token{
			AccessToken: dispensary.NewSecret(granted.AccessToken), RefreshToken: dispensary.NewSecret(granted.RefreshToken),
			TokenType: "Bearer", Scope: strings.Join(granted.Scopes, " "), Lifetime: defaults.TokenLifetime,
			CreatedAt: granted.CreatedAt, ExpiresAt: granted.ExpiresAt, UsedAt: time.Now(), Environment: environment,
		})
		require.NoError(f, err)
	}
	time.Sleep(time.Until(start.Add(defaults.TokenLifetime)))
}

// call makes one call of a user on a replica.
func (f *fleet) call(replica, user int) error {
	client, err := f.replicas[replica].Client(f.Context(), f.name(user))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(f.Context(), 5*time.Second)
	defer cancel()
	_, err = client.Clinic.Get(ctx)
	return err
}

// outlive calls for all users before, during and after an outage.
func (f *fleet) outlive(length time.Duration) outcome {
	f.Helper()
	f.connect()
	ctx, stop := context.WithCancel(f.Context())
	var running sync.WaitGroup
	for _, users := range f.replicas {
		running.Go(func() { assert.NoError(f, users.KeepFresh(ctx, tokens.KeepFreshPolicy{})) })
	}
	f.outage.on.Store(true)
	revoked := f.work(length)
	f.outage.on.Store(false)
	got := outcome{
		Calls: f.calls, Failed: f.failed, TokenCalls: int(f.outage.tokenCalls.Load()), Revoked: len(revoked),
	}
	got.Broken, got.Slowest = f.recover(revoked)
	stop()
	running.Wait()
	for _, users := range f.replicas {
		require.NoError(f, users.Close(f.Context()))
	}
	for account, err := range f.replicas[0].List(f.Context(), accounts.ListOptions{State: tokenstore.StateReauthorize}) {
		require.NoError(f, err)
		f.marked[account.Key.User] = true
		if revoked[account.Key.User] {
			got.Marked++
		}
	}
	for user := range f.marked {
		if !revoked[user] {
			got.WronglyMarked++
		}
	}
	return got
}

// work calls for each user again and again on random replicas. Halfway, the platform revokes
// some users.
func (f *fleet) work(length time.Duration) (revoked map[string]bool) {
	f.Helper()
	pause := max(time.Second, length/30)
	end := time.Now().Add(length)
	var working sync.WaitGroup
	for user := range f.users {
		working.Go(func() {
			time.Sleep(rand.N(pause))
			for time.Now().Before(end) {
				err := f.call(rand.IntN(replicas), user)
				f.mu.Lock()
				f.calls++
				if err != nil {
					f.failed++
				}
				f.mu.Unlock()
				time.Sleep(pause/2 + rand.N(pause))
			}
		})
	}
	time.Sleep(length / 2)
	revoked = f.revoke()
	working.Wait()
	return revoked
}

// revoke revokes 1 in 20 users at the platform, without the knowledge of the replicas.
func (f *fleet) revoke() map[string]bool {
	f.Helper()
	environment := f.platform.Site().Environment
	direct, err := f.replica(f.platform.HTTPClient().Transport).Connections(environment)
	require.NoError(f, err)
	revoked := map[string]bool{}
	for i := 3; i < f.users && len(revoked) < max(1, f.users/20); i += 20 {
		record, err := f.store.Load(f.Context(), tokenstore.Key{Environment: environment, User: f.name(i)})
		require.NoError(f, err)
		require.NoError(f, direct.Client().Revoke(f.Context(), record.Token))
		revoked[f.name(i)] = true
	}
	return revoked
}

// recover calls for every user on every replica until the call succeeds, for up to 1 hour. For
// a revoked user it stops once the user has to authorize again.
func (f *fleet) recover(revoked map[string]bool) (broken int, slowest time.Duration) {
	f.Helper()
	const patience = time.Hour
	ended := time.Now()
	var mu sync.Mutex
	var working sync.WaitGroup
	for user := range f.users {
		working.Go(func() {
			for replica := range replicas {
				err := f.call(replica, user)
				for err != nil && time.Since(ended) < patience && !(revoked[f.name(user)] && errors.Is(err, dispensary.ErrReauthorize)) {
					time.Sleep(5 * time.Second)
					err = f.call(replica, user)
				}
				mu.Lock()
				switch {
				case revoked[f.name(user)]:
				case err != nil:
					broken++
					f.Log(f.name(user), err)
				default:
					slowest = max(slowest, time.Since(ended))
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return broken, slowest
}
