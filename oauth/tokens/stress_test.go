package tokens_test

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
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Several replicas, faults of every kind and a store that fails at times: as long as
// the platform keeps the old token until the new one is used, no user has to authorize again.
func TestFaultsUnderLoadMarkNoUser(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		for _, mode := range []oauthtest.Rotation{oauthtest.RotateNever, oauthtest.RotateOnFirstUse} {
			t.Run(fmt.Sprintf("%s %d", mode, seed), func(t *testing.T) {
				oauthtest.Bubble(t, func(t *testing.T) { stress(t, mode, rand.New(rand.NewPCG(seed, 0))) })
			})
		}
	}
}

func stress(t *testing.T, mode oauthtest.Rotation, random *rand.Rand) {
	w := newFixture(t, mode, -time.Minute)
	w.platform.Delay = 200 * time.Millisecond
	replicas := []*tokens.Connections{w.conns, w.replica(t), w.replica(t)}
	hang := func(handle func() *http.Response) (*http.Response, error) {
		response := handle()
		time.Sleep(45 * time.Second) // longer than the lease
		return response, nil
	}
	faults := []oauthtest.Fault{nil, nil, oauthtest.Loses, oauthtest.Drops, oauthtest.Answers(500, ""), oauthtest.Answers(200, html), hang}
	for range 30 {
		w.platform.Replace(faults[random.IntN(len(faults))], faults[random.IntN(len(faults))])
		for _, method := range []string{"Load", "Lease", "Commit", "Release"} {
			w.store.Break(method, []error{nil, nil, nil, errors.New("away")}[random.IntN(4)])
		}
		var wg sync.WaitGroup
		for _, conns := range replicas {
			source := conns.TokenSource(user)
			for range 5 {
				wg.Go(func() {
					token, err := source.Token(t.Context())
					assert.NotErrorIs(t, err, oauth.ErrReauthorize)
					if err == nil {
						w.platform.Use(token.Secret)
					}
				})
			}
		}
		wg.Wait()
		time.Sleep(time.Duration(random.IntN(3)) * time.Hour)
	}
	for _, method := range []string{"Load", "Lease", "Commit", "Release"} {
		w.store.Break(method, nil)
	}
	w.platform.Replace()
	for _, conns := range replicas {
		require.NoError(t, conns.Close(t.Context()))
	}
	time.Sleep(time.Hour)
	_, err := w.source.Token(t.Context())
	require.NoError(t, err)
	assert.Equal(t, tokens.StateActive, w.record(t).State)
}
