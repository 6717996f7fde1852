package oauth_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/oauth"
)

// watcher writes down what an observer is told.
type watcher struct {
	mu    sync.Mutex
	ended []oauth.RefreshResult
	calls int // of the platform, in the context of a refresh
}

type refreshKey struct{}

func (w *watcher) observe(c *oauth.Config) {
	c.Observers = append(c.Observers, oauth.Observer{}, oauth.Observer{
		Calls: observe.Observer{CallEnd: func(ctx context.Context, c observe.CallResult) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, inside := ctx.Value(refreshKey{}).(oauth.Refresh); inside && c.Operation == "oauth.token" {
				w.calls++
			}
		}},
		RefreshStart: func(ctx context.Context, r oauth.Refresh) context.Context {
			return context.WithValue(ctx, refreshKey{}, r)
		},
		RefreshEnd: func(ctx context.Context, r oauth.RefreshResult) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if ctx.Value(refreshKey{}) == r.Refresh {
				w.ended = append(w.ended, r)
			}
		},
	})
}

func (w *watcher) outcomes() (all []oauth.RefreshOutcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.ended {
		all = append(all, r.Outcome)
	}
	return all
}

// Every refresh is told of once, with how it ended and how long it took; the
// calls of the platform are made in its context.
func TestObserverIsToldOfRefreshes(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault
		store error
		want  oauth.RefreshOutcome
	}{
		"done":          {nil, nil, oauth.RefreshDone},
		"reauthorize":   {answers(401, `{"error":"invalid_grant"}`), nil, oauth.RefreshReauthorize},
		"misconfigured": {answers(401, `{"error":"invalid_client"}`), nil, oauth.RefreshMisconfigured},
		"failed":        {answers(422, `{}`), nil, oauth.RefreshFailed},
		"store failed":  {nil, errors.New("away"), oauth.RefreshStoreFailed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var told watcher
				p := newPlatform(none)
				p.delay = time.Second
				client := newClient(t, p, told.observe)
				store := newBrittleStore()
				_, err := store.Save(t.Context(), client.Key(user), firstToken(-time.Minute))
				require.NoError(t, err)
				if c.fault != nil {
					p.inject(c.fault)
				}
				store.breaks("Commit", c.store)
				_, err = client.TokenSource(store, user).Token(t.Context())
				assert.Equal(t, c.want == oauth.RefreshDone, err == nil, err)
				assert.Equal(t, []oauth.RefreshOutcome{c.want}, told.outcomes())
				assert.Equal(t, oauth.Refresh{Key: client.Key(user)}, told.ended[0].Refresh)
				assert.GreaterOrEqual(t, told.ended[0].Duration, time.Second)
				assert.Equal(t, 1, told.calls)
				store.breaks("Commit", nil)
				require.NoError(t, client.Shutdown(t.Context()))
			})
		})
	}
}

// Where replicas need a token at the same time, one refreshes and the other finds.
func TestObserverTellsARefreshFromAFind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told watcher
		p := newPlatform(none)
		p.delay = time.Second
		store := oauth.NewMemoryStore()
		var wg sync.WaitGroup
		for range 2 {
			client := newClient(t, p, told.observe)
			_, err := store.Save(t.Context(), client.Key(user), firstToken(-time.Minute))
			require.NoError(t, err)
			source := client.TokenSource(store, user)
			wg.Go(func() {
				_, err := source.Token(t.Context())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.ElementsMatch(t, []oauth.RefreshOutcome{oauth.RefreshDone, oauth.RefreshFound}, told.outcomes())
	})
}

// A store that panics takes neither the program nor the end of the story along.
func TestObserverIsToldOfAPanic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told watcher
		client := newClient(t, newPlatform(none), told.observe)
		store := &panicking{Store: oauth.NewMemoryStore()}
		_, err := store.Save(t.Context(), client.Key(user), firstToken(-time.Minute))
		require.NoError(t, err)
		_, err = client.TokenSource(store, user).Token(t.Context())
		require.Error(t, err)
		assert.Equal(t, []oauth.RefreshOutcome{oauth.RefreshFailed}, told.outcomes())
	})
}

// panicking is a store that has no lease to give.
type panicking struct{ oauth.Store }

func (*panicking) Lease(context.Context, oauth.Lease, time.Duration) (oauth.Record, error) {
	panic("no lease")
}
