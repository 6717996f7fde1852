// Package mounttest tests the examples next to it. It checks that the mounted handler receives webhooks
// correctly behind each router.
package mounttest

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/examples/mount/shop"
	"github.com/dispensary-go/dispensary/examples/scene"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	secret    = "whsec_mount_0123456789abcdef"
	challenge = "challenge-mount-0123456789"
)

// patient is the time limit on a machine of any speed.
const patient = 2 * time.Minute

// Mount mounts a handler as an example does.
type Mount func(webhooks http.Handler) http.Handler

// Run runs the example as its main does, and checks the mounted handler.
func Run(t *testing.T, mount Mount) {
	t.Run("story", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var out bytes.Buffer
		require.NoError(t, shop.Run(ctx, &out, mount))
		assert.Regexp(t, `^order (\w+) was placed, its webhook delivered\norder (\w+) was shipped\n$`, out.String())
	})
	t.Run("receives", func(t *testing.T) {
		t.Parallel()
		Receives(t, mount)
	})
}

// Receives checks a mounted shop.
func Receives(t *testing.T, mount Mount) {
	t.Helper()
	b := newFixture(t)
	receivercheck.Run(t, b.target(mount))
}

// ReportsChangedBody checks that an order fails behind a middleware that reads or changes the body, and
// that the log and the acceptance test report it.
func ReportsChangedBody(t *testing.T, changed Mount) {
	t.Helper()
	b := newFixture(t)
	r := b.target(changed)
	verdicts, err := receivercheck.Examine(t.Context(), r)
	require.NoError(t, err)
	require.True(t, verdicts[0].Failed())
	assert.Equal(t, "Signature/Valid", verdicts[0].Case)
	assert.Contains(t, verdicts[0].String(), "read or rewritten by something in front of the endpoint")
	require.Eventually(t, func() bool { return strings.Contains(b.logs.String(), webhook.ErrBodyConsumed.Error()) }, time.Minute, time.Millisecond,
		"the handler reports a request after its response")
}

// fixture is a shop with recorded shipments and logs.
type fixture struct {
	shop *shop.Shop
	gate sync.RWMutex // locked for writing to block shipments

	logs    logtest.Buffer
	mu      sync.Mutex
	shipped map[string]int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	var err error
	b := &fixture{shipped: map[string]int{}}
	b.shop, err = shop.Open(shop.Settings{
		Settings: scene.Settings{
			Environment: dispensary.USSandbox,
			Secret:      dispensary.NewSecret(secret), Challenge: dispensary.NewSecret(challenge), Keys: receivertest.KeyRing(t),
		},
		Database:      filepath.Join(t.TempDir(), "inbox.db"),
		Logger:        slog.New(slog.NewTextHandler(&b.logs, nil)),
		Ship:          b.ship,
		AcceptTimeout: patient,
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.shop.Close(context.WithoutCancel(t.Context()))) })
	return b
}

// target describes the mounted shop.
func (b *fixture) target(mount Mount) receivercheck.Target {
	return receivercheck.Target{
		Handler: mount(b.shop.Webhooks), Path: shop.WebhookPath, Secret: secret, Challenge: challenge,
		Hooks: receivercheck.Hooks{
			BlockHandler: func(blocked bool) {
				if blocked {
					b.gate.Lock()
					return
				}
				b.gate.Unlock()
			},
			Handled: func(eventID string) int {
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.shipped[eventID]
			},
			Logs: b.logs.String,
		},
		Features: receivercheck.Features{OtherEnvelopes: true},
		Timing:   receivercheck.Timing{Timeout: patient, Patience: patient},
	}
}

func (b *fixture) ship(_ context.Context, order events.OrderEvent) error {
	b.gate.RLock()
	defer b.gate.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shipped[order.ID]++
	return nil
}
