package oauth

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		environment := api.Environment{Region: api.US, Stage: api.Sandbox}
		down := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("down") })
		client, err := New(Config{
			Site:     api.Site{Environment: environment, BaseURL: "https://p.example/api", AuthURL: "https://p.example"},
			ClientID: "id", ClientSecret: "secret", RedirectURL: "https://ehr.example/cb", HTTPClient: &http.Client{Transport: down},
		})
		require.NoError(t, err)
		store := NewMemoryStore()
		for i := range 100 {
			user := "user-" + strconv.Itoa(i)
			_, err := store.Save(t.Context(), client.Key(user), Token{
				AccessToken: "a", RefreshToken: "r", ExpiresAt: time.Now().Add(-time.Hour), Environment: environment,
			})
			require.NoError(t, err)
			_, err = client.TokenSource(store, user).Token(t.Context())
			require.ErrorIs(t, err, api.ErrMaybeApplied)
		}
		require.NoError(t, client.Shutdown(t.Context()))
		assert.Empty(t, client.flights.running)
		assert.Error(t, client.cooling.blocked(slot{store, client.Key("user-4"), toRenew}))
		time.Sleep(cooldownMemory + lastCooldown)
		synctest.Wait()
		client.cooling.mu.Lock()
		defer client.cooling.mu.Unlock()
		assert.Empty(t, client.cooling.entries)
		assert.Empty(t, client.unwritten.kept)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestFlightEndsEvenIfItsGoroutineIsEnded(t *testing.T) {
	t.Parallel()
	var flights flights
	key := Key{User: "u"}
	f, started := flights.join(t.Context(), slot{key: key}, func(context.Context) (Record, error) {
		runtime.Goexit()
		return Record{}, nil
	})
	require.True(t, started)
	_, err := f.wait(t.Context(), key)
	require.ErrorIs(t, err, errAbandoned)
	assert.Empty(t, flights.underWay())
}

func TestBackoffDoublesAndIsBounded(t *testing.T) {
	t.Parallel()
	for try := 1; try < 100; try++ {
		wait := backoff(try, time.Second, 30*time.Second)
		most := 30 * time.Second
		if try < 6 {
			most = time.Second << (try - 1)
		}
		assert.GreaterOrEqual(t, wait, most/2)
		assert.Less(t, wait, most)
	}
}

func TestLaterFlightsWin(t *testing.T) {
	t.Parallel()
	s := &UserTokenSource{client: &Client{config: Config{}.withDefaults()}}
	land := func(seq uint64, access api.Secret, err error) {
		f := &flight{seq: seq, done: make(chan struct{}), record: Record{Token: Token{AccessToken: access}}, err: err}
		close(f.done)
		_, _ = s.await(t.Context(), f)
	}
	land(2, "second", nil)
	land(1, "first", nil)
	assert.Equal(t, "second", s.current.Load().token.Secret.Reveal())
	land(1, "", ErrReauthorize)
	require.NotNil(t, s.current.Load(), "an old verdict says nothing of a newer token")
	land(3, "", ErrReauthorize)
	assert.Nil(t, s.current.Load())
}
