package oauth_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
)

// Replicas, faults of every kind and a store that comes and goes: as long as
// the platform keeps the old token until the new one is used, no user is lost.
func TestNobodyIsLoggedOutInAStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		for _, mode := range []rotation{none, grace} {
			t.Run(fmt.Sprintf("%s %d", mode, seed), func(t *testing.T) {
				bubble(t, func(t *testing.T) { storm(t, mode, rand.New(rand.NewPCG(seed, 0))) })
			})
		}
	}
}

func storm(t *testing.T, mode rotation, random *rand.Rand) {
	w := newWorld(t, mode, -time.Minute)
	w.platform.delay = 200 * time.Millisecond
	replicas := []*oauth.Client{w.client, w.replica(t), w.replica(t)}
	hang := func(handle func() *http.Response) (*http.Response, error) {
		response := handle()
		time.Sleep(45 * time.Second) // longer than the lease
		return response, nil
	}
	faults := []fault{nil, nil, loses, drops, answers(500, ""), answers(200, html), hang}
	for range 30 {
		w.platform.replace(faults[random.IntN(len(faults))], faults[random.IntN(len(faults))])
		for _, method := range []string{"Load", "Lease", "Commit", "Release"} {
			w.store.breaks(method, []error{nil, nil, nil, errors.New("away")}[random.IntN(4)])
		}
		var wg sync.WaitGroup
		for _, client := range replicas {
			source := client.TokenSource(w.store, user)
			for range 5 {
				wg.Go(func() {
					token, err := source.Token(t.Context())
					assert.NotErrorIs(t, err, oauth.ErrReauthorize)
					if err == nil {
						w.platform.use(token.Secret)
					}
				})
			}
		}
		wg.Wait()
		time.Sleep(time.Duration(random.IntN(3)) * time.Hour)
	}
	for _, method := range []string{"Load", "Lease", "Commit", "Release"} {
		w.store.breaks(method, nil)
	}
	w.platform.replace()
	for _, client := range replicas {
		require.NoError(t, client.Shutdown(t.Context()))
	}
	time.Sleep(time.Hour)
	_, err := w.source.Token(t.Context())
	require.NoError(t, err)
	assert.Equal(t, oauth.StateActive, w.record(t).State)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
