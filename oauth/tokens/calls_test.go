package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

type down struct{}

func (down) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("down") }

// onDeadPlatform returns connections to an unreachable platform.
func onDeadPlatform(t *testing.T, store tokenstore.Store) *Connections {
	t.Helper()
	client, err := oauth.New(oauth.Config{
		Site:     api.Site{Environment: api.USSandbox, BaseURL: "https://p.example/api", AuthURL: "https://p.example"},
		ClientID: "id", ClientSecret: api.NewSecret("secret"), RedirectURL: "https://ehr.example/cb", Transport: down{},
	})
	require.NoError(t, err)
	conns, err := NewConnections(Config{Client: client, Store: store})
	require.NoError(t, err)
	return conns
}

func TestCallsAndBackoffsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := tokenstore.NewMemoryStore()
		conns := onDeadPlatform(t, store)
		for i := range 100 {
			user := "user-" + strconv.Itoa(i)
			_, err := store.Save(t.Context(), conns.Key(user), oauth.Token{
				AccessToken: api.NewSecret("a"), RefreshToken: api.NewSecret("r"), ExpiresAt: time.Now().Add(-time.Hour), Environment: conns.Environment(),
			})
			require.NoError(t, err)
			_, err = conns.TokenSource(user).Token(t.Context())
			require.ErrorIs(t, err, api.ErrMaybeApplied)
		}
		require.NoError(t, conns.Close(t.Context()))
		assert.Empty(t, conns.users.running)
		require.Error(t, conns.brakes.blocked(conns.Key("user-4")))
		time.Sleep(backoffMemory + lastBackoff)
		synctest.Wait()
		assert.Zero(t, conns.brakes.failingNow())
	})
}

func TestBackoffDoublesAndIsBounded(t *testing.T) {
	t.Parallel()
	for try := 1; try < 100; try++ {
		wait := jitter.Backoff(try, time.Second, 30*time.Second)
		most := 30 * time.Second
		if try < 6 {
			most = time.Second << (try - 1)
		}
		assert.GreaterOrEqual(t, wait, most/2)
		assert.Less(t, wait, most)
	}
}

// Retries of marks slow down to one in 10 minutes. Users who were marked together are retried
// at different times.
func TestRetriesOfMarksSpread(t *testing.T) {
	t.Parallel()
	marked := time.Now()
	for _, c := range []struct{ since, first, last time.Duration }{
		{-time.Hour, time.Minute, 75 * time.Second}, // the clocks differ
		{0, time.Minute, 75 * time.Second},
		{4 * time.Minute, 4 * time.Minute, 5 * time.Minute},
		{240 * time.Hour, 8 * time.Minute, 10 * time.Minute},
	} {
		times := map[time.Time]bool{}
		for i := range 1000 {
			record := tokenstore.Record{Key: tokenstore.Key{User: strconv.Itoa(i)}, UpdatedAt: marked, Token: oauth.Token{RejectedAt: marked.Add(-c.since)}}
			retry := retryFrom(record)
			times[retry] = true
			assert.WithinRange(t, retry, marked.Add(c.first), marked.Add(c.last))
		}
		assert.Greater(t, len(times), 900)
	}
}

func TestClockChangeRequiresCheck(t *testing.T) {
	t.Parallel()
	c := newCachedToken(oauth.Token{AccessToken: api.NewSecret("a")})
	assert.NotContains(t, c.checked.String(), "m=", "the monotonic clock stops while a machine sleeps")
	now := time.Now()
	assert.False(t, c.unchecked(now))
	assert.True(t, c.unchecked(now.Add(checkEvery)))
	assert.True(t, c.unchecked(now.Add(-time.Minute)))
}

// failingOnce is a store that rejects the first pair.
type failingOnce struct {
	*tokenstore.MemoryStore
	failed bool
}

func (s *failingOnce) Commit(ctx context.Context, lease tokenstore.Lease, token oauth.Token) (tokenstore.Record, error) {
	if !s.failed {
		s.failed = true
		return tokenstore.Record{}, errors.New("away")
	}
	return s.MemoryStore.Commit(ctx, lease, token)
}

// Two pairs of a user can be pending. The second does not replace the first, because both are
// successors of the same token.
func TestSecondPendingCommitIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &failingOnce{MemoryStore: tokenstore.NewMemoryStore()}
		conns := onDeadPlatform(t, store)
		token := oauth.Token{AccessToken: api.NewSecret("old"), RefreshToken: api.NewSecret("r"), Environment: conns.Environment()}
		record, err := store.Save(t.Context(), conns.Key("u"), token)
		require.NoError(t, err)
		leased, err := conns.acquireLease(t.Context(), record, nil)
		require.NoError(t, err)
		for _, access := range []string{"first", "second"} {
			next := token
			next.AccessToken = api.NewSecret(access)
			_, err = conns.commit(t.Context(), leased, next, "")
			require.NoError(t, err)
		}
		require.NoError(t, conns.Close(t.Context()))
		record, err = store.Load(t.Context(), conns.Key("u"))
		require.NoError(t, err)
		assert.Equal(t, api.NewSecret("first"), record.Token.AccessToken)
	})
}

func TestMemoryKeepsNewestToken(t *testing.T) {
	t.Parallel()
	u := users{limit: 3}
	for i := range 100 {
		user := fmt.Sprint(i % 7)
		u.put(user, &cachedToken{})
		require.NotNil(t, u.token(user))
		require.Len(t, u.tokens, min(i+1, 3))
	}
}

// A read that began before a refresh ended, or before the user was forgotten, stores nothing.
func TestEarlierReadStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := users{limit: 2}
		key := tokenstore.Key{Environment: api.USSandbox, User: "a"}
		start := func(kind callKind, access string) (end func()) {
			release := make(chan struct{})
			c, started := u.join(t.Context(), callKey{key: key, kind: kind}, nil, func(context.Context) (tokenstore.Record, error) {
				<-release
				return tokenstore.Record{Token: oauth.Token{AccessToken: api.NewSecret(access)}}, nil
			})
			require.True(t, started)
			return func() { close(release); <-c.done }
		}
		requireToken := func(want string) {
			require.Equal(t, api.NewSecret(want), u.token("a").token.Secret)
		}
		endLoad, endRefresh := start(loadCall, "old"), start(refreshCall, "new")
		endRefresh()
		requireToken("new")
		endLoad()
		requireToken("new")

		endLoad, endRefresh = start(loadCall, "read"), start(refreshCall, "newer")
		endLoad()
		requireToken("read")
		endRefresh()
		requireToken("newer")

		endLoad, endRefresh = start(loadCall, "old"), start(refreshCall, "old")
		u.forget(key)
		endRefresh()
		endLoad()
		assert.Nil(t, u.token("a"))
		assert.Empty(t, u.open)
		assert.Empty(t, u.running)
	})
}

func TestErrorsDescribeProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want api.Problem
	}{
		{fmt.Errorf("%w: %w", ErrOwnerRejected, context.Canceled), api.Problem{Status: 403, Title: "This dispensary account cannot be connected here. Please use another one.", Reauthorize: true}},
		{ErrUndecided, api.Problem{Status: 502, Title: "The dispensary account could not be checked. Please try again later."}},
		{storeError("Load", tokenstore.Key{User: "u"}, context.DeadlineExceeded), api.Problem{Status: 503, Title: "This is not possible right now. Please try again later."}},
		{&ReauthorizeError{Reason: tokenstore.ReasonNotConnected}, api.Problem{Status: 409, Title: "Please connect your dispensary account.", Reauthorize: true}},
	} {
		assert.Equal(t, &test.want, api.ProblemOf(test.err), test.err)
	}
}
