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

// Several replicas, with faults of every kind and a store that fails at times, where
// calls alone refresh and where KeepFresh does as well: as long as the platform keeps the
// old token until the new one is used, no user has to authorize again.
func TestFaultsUnderLoadMarkNoUser(t *testing.T) {
	type test struct {
		mode       oauthtest.Rotation
		seed       uint64
		refreshers bool
	}
	var tests []test
	for seed := range uint64(20) {
		for _, mode := range []oauthtest.Rotation{oauthtest.RotateNever, oauthtest.RotateOnFirstUse} {
			tests = append(tests, test{mode, seed, seed%2 == 1})
		}
	}
	oauthtest.Each(t, oauthtest.ByName(tests...), func(t *testing.T, test test) {
		stress(t, test.mode, rand.New(rand.NewPCG(test.seed, 0)), test.refreshers)
	})
}

func stress(t *testing.T, mode oauthtest.Rotation, random *rand.Rand, refreshers bool) {
	const users = 5
	w := newFixture(t, mode, 24*time.Hour)
	w.connect(t, users, -time.Minute)
	w.platform.Delay = 200 * time.Millisecond
	replicas := []*tokens.Connections{w.conns, w.replica(t), w.replica(t)}
	for _, conns := range replicas {
		if refreshers {
			defer runs(t, conns, tokens.KeepFreshPolicy{Interval: 10 * time.Minute})()
		}
	}
	hang := func(handle func() *http.Response) (*http.Response, error) {
		response := handle()
		time.Sleep(45 * time.Second) // longer than the lease
		return response, nil
	}
	faults := []oauthtest.Fault{nil, nil, oauthtest.Loses, oauthtest.Drops, oauthtest.Answers(500, ""), oauthtest.Answers(200, html), hang}
	methods := []string{"Load", "Lease", "Commit", "Release", "ClaimDue"}
	for range 30 {
		w.platform.Replace(faults[random.IntN(len(faults))], faults[random.IntN(len(faults))])
		for _, method := range methods {
			w.store.Break(method, []error{nil, nil, nil, errors.New("away")}[random.IntN(4)])
		}
		var wg sync.WaitGroup
		for _, conns := range replicas {
			for i := range users {
				source := conns.TokenSource(fmt.Sprintf("many-%d", i))
				for range 3 {
					wg.Go(func() {
						token, err := source.Token(t.Context())
						assert.NotErrorIs(t, err, oauth.ErrReauthorize)
						if err == nil {
							w.platform.Use(token.Secret)
						}
					})
				}
			}
		}
		wg.Wait()
		time.Sleep(time.Duration(random.IntN(3)) * time.Hour)
	}
	for _, method := range methods {
		w.store.Break(method, nil)
	}
	w.platform.Replace()
	for _, conns := range replicas {
		require.NoError(t, conns.Close(t.Context()))
	}
	time.Sleep(time.Hour)
	for i := range users {
		user := fmt.Sprintf("many-%d", i)
		_, err := w.conns.TokenSource(user).Token(t.Context())
		require.NoError(t, err)
		record, err := w.conns.Record(t.Context(), user)
		require.NoError(t, err)
		assert.Equal(t, tokens.StateActive, record.State)
	}
}
