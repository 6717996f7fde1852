package oauth_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
)

// slowStore takes its time for some calls: it waits before it begins, or after
// the work is done, and gives up when its caller's context ends, as drivers do.
type slowStore struct {
	oauth.Store

	mu    sync.Mutex
	waits map[string][]time.Duration // by method; each is used up by one call
	late  bool                       // after the work, not before it
}

func (s *slowStore) do(ctx context.Context, method string, work func() error) error {
	s.mu.Lock()
	var wait time.Duration
	if left := s.waits[method]; len(left) > 0 {
		wait, s.waits[method] = left[0], left[1:]
	}
	s.mu.Unlock()
	if s.late {
		if err := work(); err != nil {
			return err
		}
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.late {
		return nil
	}
	return work()
}

func (s *slowStore) Load(ctx context.Context, key oauth.Key) (record oauth.Record, err error) {
	err = s.do(ctx, "Load", func() error { record, err = s.Store.Load(ctx, key); return err })
	return record, err
}

func (s *slowStore) Save(ctx context.Context, key oauth.Key, token oauth.Token) (record oauth.Record, err error) {
	err = s.do(ctx, "Save", func() error { record, err = s.Store.Save(ctx, key, token); return err })
	return record, err
}

func (s *slowStore) Lease(ctx context.Context, lease oauth.Lease, ttl time.Duration) (record oauth.Record, err error) {
	err = s.do(ctx, "Lease", func() error { record, err = s.Store.Lease(ctx, lease, ttl); return err })
	return record, err
}

func (s *slowStore) Commit(ctx context.Context, lease oauth.Lease, token oauth.Token) (record oauth.Record, err error) {
	err = s.do(ctx, "Commit", func() error { record, err = s.Store.Commit(ctx, lease, token); return err })
	return record, err
}

func (s *slowStore) Fail(ctx context.Context, lease oauth.Lease, reason oauth.Reason) (record oauth.Record, err error) {
	err = s.do(ctx, "Fail", func() error { record, err = s.Store.Fail(ctx, lease, reason); return err })
	return record, err
}

// slowly makes a source on a store that is slow at the given methods, once each.
func (w *world) slowly(late bool, d time.Duration, methods ...string) (*oauth.UserTokenSource, *slowStore) {
	store := &slowStore{Store: w.store, waits: map[string][]time.Duration{}, late: late}
	for _, method := range methods {
		store.waits[method] = []time.Duration{d}
	}
	return w.client.TokenSource(store, user), store
}

// A store that is slow for a moment is waited for, and nothing fails: neither
// before its work nor after it, not even where the lease runs out meanwhile.
func TestStoreThatIsSlowForAMomentFailsNobody(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		for _, d := range []time.Duration{11 * time.Second, 25 * time.Second, 40 * time.Second} {
			for _, method := range []string{"Load", "Lease", "Commit"} {
				bubbleNamed(t, method, late, d, func(t *testing.T) {
					w := newWorld(t, immediate, -time.Minute)
					source, _ := w.slowly(late, d, method)
					token, err := source.Token(t.Context())
					require.NoError(t, err)
					assert.Equal(t, "access-1", token.Secret.Reveal())
					assert.Len(t, w.platform.sent(), 1)
					require.NoError(t, w.client.Shutdown(t.Context()))
					assert.Equal(t, "refresh-1", w.record(t).Token.RefreshToken.Reveal())
				})
			}
		}
	}
}

func bubbleNamed(t *testing.T, method string, late bool, d time.Duration, test func(t *testing.T)) {
	t.Helper()
	name := method + " before its work "
	if late {
		name = method + " after its work "
	}
	t.Run(name+d.String(), func(t *testing.T) { bubble(t, test) })
}

// A lease that ran out while it was being taken does not count: the platform is
// asked under one that nobody else can take meanwhile.
func TestLeaseThatRanOutWhileItWasTakenIsTakenAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		source, _ := w.slowly(true, oauth.DefaultLeaseTTL+10*time.Second, "Lease")
		peer := oauth.Lease{Key: w.client.Key(user), Version: w.record(t).Version, Owner: "peer"}
		w.platform.inject(takeOver(func() {
			_, err := w.store.Lease(t.Context(), peer, time.Minute)
			assert.ErrorIs(t, err, oauth.ErrLeased)
		}))
		token, err := source.Token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
	})
}

// Where a peer has taken it instead, its result is waited for.
func TestLeaseThatAPeerTookMeanwhileIsThePeers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		source, _ := w.slowly(true, oauth.DefaultLeaseTTL+10*time.Second, "Lease")
		go func() {
			time.Sleep(oauth.DefaultLeaseTTL + time.Second)
			_, err := w.replica(t).TokenSource(w.store, user).Token(t.Context())
			assert.NoError(t, err)
		}()
		token, err := source.Token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
		assert.Len(t, w.platform.sent(), 1, "the peer's refresh")
	})
}

// It is the caller who says how long to wait.
func TestCallerOfASlowStoreLeavesWithItsContext(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Load", "Lease", "Commit"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, -time.Minute)
				source, _ := w.slowly(false, 25*time.Second, method)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				_, err := source.Token(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, 2*time.Second, time.Since(began))
				token, err := source.Token(t.Context())
				require.NoError(t, err, "the store has come back")
				assert.Equal(t, "access-1", token.Secret.Reveal())
				assert.Len(t, w.platform.sent(), 1)
			})
		})
	}
}

// A call that never comes back does not keep a user waiting for ever.
func TestStoreThatHangsIsGivenUpOn(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Load", "Lease"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, -time.Minute)
				source, _ := w.slowly(false, 24*time.Hour, method)
				_, err := source.Token(t.Context())
				var problem *oauth.StoreError
				require.ErrorAs(t, err, &problem)
				assert.Equal(t, method, problem.Op)
				time.Sleep(time.Minute) // of peace after a failure
				_, err = source.Token(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

// The mark on a user who has to authorize again is not lost either.
func TestSlowStoreStillMarksTheUser(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.kill("refresh-0")
		source, _ := w.slowly(false, 25*time.Second, "Fail")
		_, err := source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonInvalidGrant)
		assert.Equal(t, oauth.StateReauthorize, w.record(t).State)
	})
}

// A code cannot be had again: the user who has just authorized waits as well.
func TestSlowStoreStillConnectsTheUser(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		_, store := w.slowly(false, 25*time.Second, "Save")
		record, err := w.client.Connect(t.Context(), store, "user-18", "code", nil)
		require.NoError(t, err)
		assert.Equal(t, "access-1", record.Token.AccessToken.Reveal())
		assert.Len(t, w.platform.sent(), 1, "nothing was revoked")
	})
}

func TestSlowStoreStillDisconnectsTheUser(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Load", "Lease"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, none, time.Hour)
				_, store := w.slowly(true, 40*time.Second, method)
				require.NoError(t, w.client.Disconnect(t.Context(), store, user))
				_, err := w.store.Load(t.Context(), w.client.Key(user))
				require.ErrorIs(t, err, oauth.ErrNoRecord)
			})
		})
	}
}
