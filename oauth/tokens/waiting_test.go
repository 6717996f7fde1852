package tokens_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// breakWhileWaiting gives the lease to a crashed replica. A method of the store fails for a
// second after 10 seconds.
func breakWhileWaiting(t *testing.T, w *fixture, method string) {
	t.Helper()
	w.lease(t, 30*time.Second)
	time.AfterFunc(10*time.Second, func() { w.store.Break(method, errors.New("connection terminated")) })
	time.AfterFunc(11*time.Second, func() { w.store.Break(method, nil) })
}

func TestWaitForLeaseSurvivesStoreOutage(t *testing.T) {
	for _, method := range []string{"Load", "Lease"} {
		t.Run(method, func(t *testing.T) {
			oauthtest.Bubble(t, func(t *testing.T) {
				w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
				breakWhileWaiting(t, w, method)
				began := time.Now()
				token, err := w.source.Token(t.Context())
				require.NoError(t, err)
				assert.False(t, token.Secret.IsZero())
				assert.Less(t, time.Since(began), 40*time.Second)
			})
		})
	}
}

func TestDisconnectWaitSurvivesStoreOutage(t *testing.T) {
	for _, method := range []string{"Load", "Lease"} {
		t.Run(method, func(t *testing.T) {
			oauthtest.Bubble(t, func(t *testing.T) {
				w := newFixture(t, oauthtest.RotateAtOnce, time.Hour)
				breakWhileWaiting(t, w, method)
				require.NoError(t, w.conns.Disconnect(t.Context(), user))
			})
		})
	}
}

func TestLastingStoreOutageEndsWait(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		breakWhileWaiting(t, w, "Lease")
		time.AfterFunc(12*time.Second, func() { w.store.Break("Load", errors.New("down")) })
		began := time.Now()
		_, err := w.source.Token(t.Context())
		var failure *tokens.StoreError
		require.ErrorAs(t, err, &failure)
		assert.Less(t, time.Since(began), 5*time.Minute)
	})
}
