package tokens_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// watcher records the calls of an observer.
type watcher struct {
	mu    sync.Mutex
	ended []tokens.RefreshResult
	calls int // of the platform, in the context of a refresh
}

type refreshKey struct{}

func (w *watcher) observe(c *settings) {
	c.Observers = append(c.Observers, observe.Observer{CallEnd: func(ctx context.Context, c observe.CallResult) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, inside := ctx.Value(refreshKey{}).(tokens.Refresh); inside && c.Operation == "oauth.token" {
			w.calls++
		}
	}})
	c.Tokens.Observers = append(c.Tokens.Observers, tokens.Observer{}, tokens.Observer{
		RefreshStart: func(ctx context.Context, r tokens.Refresh) context.Context {
			return context.WithValue(ctx, refreshKey{}, r)
		},
		RefreshEnd: func(ctx context.Context, r tokens.RefreshResult) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if ctx.Value(refreshKey{}) == r.Refresh {
				w.ended = append(w.ended, r)
			}
		},
	})
}

func (w *watcher) outcomes() (all []tokens.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.ended {
		all = append(all, r.Outcome)
	}
	return all
}

// Each refresh is reported once, with its outcome and how long it took; the requests
// to the platform are made in its context.
func TestObserverSeesRefreshes(t *testing.T) {
	type test struct {
		fault oauthtest.Fault
		store error
		want  tokens.Outcome
	}
	oauthtest.Each(t, map[string]test{
		"done":          {nil, nil, tokens.OutcomeRefreshed},
		"reauthorize":   {oauthtest.Answers(401, `{"error":"invalid_grant"}`), nil, tokens.OutcomeReauthorize},
		"misconfigured": {oauthtest.Answers(401, `{"error":"invalid_client"}`), nil, tokens.OutcomeMisconfigured},
		"failed":        {oauthtest.Answers(422, `{}`), nil, tokens.OutcomeFailed},
		"store failed":  {nil, errors.New("away"), tokens.OutcomeStoreFailed},
	}, func(t *testing.T, c test) {
		var watched watcher
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		p.Delay = time.Second
		store := oauthtest.NewFlakyStore()
		conns := newConns(t, p, store, watched.observe)
		_, err := store.Save(t.Context(), conns.Key(user), oauthtest.FirstToken(-time.Minute))
		require.NoError(t, err)
		if c.fault != nil {
			p.Inject(c.fault)
		}
		store.Break("Commit", c.store)
		_, err = conns.TokenSource(user).Token(t.Context())
		assert.Equal(t, c.want == tokens.OutcomeRefreshed, err == nil, err)
		assert.Equal(t, []tokens.Outcome{c.want}, watched.outcomes())
		assert.Equal(t, tokens.Refresh{Key: conns.Key(user)}, watched.ended[0].Refresh)
		assert.GreaterOrEqual(t, watched.ended[0].Duration, time.Second)
		assert.Equal(t, 1, watched.calls)
		store.Break("Commit", nil)
		require.NoError(t, conns.Close(t.Context()))
	})
}

// Where two replicas need a token at the same time, one refreshes it and the other finds
// the new one in the store.
func TestObserverSeesRefreshedAndFound(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		var watched watcher
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		p.Delay = time.Second
		store := tokens.NewMemoryStore()
		var wg sync.WaitGroup
		for range 2 {
			conns := newConns(t, p, store, watched.observe)
			_, err := store.Save(t.Context(), conns.Key(user), oauthtest.FirstToken(-time.Minute))
			require.NoError(t, err)
			source := conns.TokenSource(user)
			wg.Go(func() {
				_, err := source.Token(t.Context())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.ElementsMatch(t, []tokens.Outcome{tokens.OutcomeRefreshed, tokens.OutcomeFound}, watched.outcomes())
	})
}

// A store that panics does not end the program, and the end of the refresh is reported.
func TestObserverSeesAPanic(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		var watched watcher
		store := oauthtest.Around(tokens.NewMemoryStore(), map[string]oauthtest.Interception{"Lease": panics})
		conns := newConns(t, oauthtest.NewPlatform(oauthtest.RotateNever), store, watched.observe)
		_, err := store.Save(t.Context(), conns.Key(user), oauthtest.FirstToken(-time.Minute))
		require.NoError(t, err)
		_, err = conns.TokenSource(user).Token(t.Context())
		require.Error(t, err)
		assert.Equal(t, []tokens.Outcome{tokens.OutcomeFailed}, watched.outcomes())
	})
}
