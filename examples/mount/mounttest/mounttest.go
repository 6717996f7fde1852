// Package mounttest is the test of the examples around it: whichever the router,
// what it has mounted receives webhooks as it should.
package mounttest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	secret    = "whsec_mount_0123456789abcdef"
	challenge = "challenge-mount-0123456789"
)

// patient is how long things may take on a machine of any speed.
const patient = 2 * time.Minute

// Mount is what an example does with a handler.
type Mount func(webhooks http.Handler) http.Handler

// Run runs the example as its main does, examines what it has mounted, and mounts it
// behind middlewares that take the webhooks' bodies from them: behind puts a function in
// front of the routes, which is called with every request.
func Run(t *testing.T, mount Mount, behind func(middleware func(*http.Request)) Mount) {
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
	t.Run("body is decoded", func(t *testing.T) {
		t.Parallel()
		ReportsChangedBody(t, behind(func(r *http.Request) {
			var body struct{ Tenant string }
			_ = json.NewDecoder(r.Body).Decode(&body) // the probe has none
		}))
	})
	t.Run("body is encoded again", func(t *testing.T) {
		t.Parallel()
		ReportsChangedBody(t, behind(indent))
	})
}

// Receives examines a mounted shop.
func Receives(t *testing.T, mount Mount) {
	t.Helper()
	b := newFixture(t)
	receivercheck.Run(t, b.target(mount))
}

// ReportsChangedBody requires that an order fails behind a middleware that reads or changes
// the body. The log and the acceptance test have to report it.
func ReportsChangedBody(t *testing.T, changed Mount) {
	t.Helper()
	b := newFixture(t)
	r := b.target(changed)
	verdicts, err := receivercheck.Examine(t.Context(), r)
	require.NoError(t, err)
	require.True(t, verdicts[0].Failed())
	assert.Equal(t, "Signature/Valid", verdicts[0].Case)
	assert.Contains(t, verdicts[0].String(), "read or rewritten by something in front of the endpoint")
	require.Eventually(t, func() bool { return strings.Contains(b.logged(), webhook.ErrBodyConsumed.Error()) }, time.Minute, time.Millisecond,
		"the handler reports a request after its response")
}

// fixture is a shop whose shipments and logs are recorded.
type fixture struct {
	shop *shop.Shop
	gate sync.RWMutex // held for writing while nothing can be shipped

	mu      sync.Mutex
	shipped map[string]int
	logs    strings.Builder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	key, err := seal.GenerateKey("example")
	require.NoError(t, err)
	keys, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	b := &fixture{shipped: map[string]int{}}
	b.shop, err = shop.Open(shop.Settings{
		Settings: scene.Settings{
			Environment: dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox},
			Secret:      dispensary.NewSecret(secret), Challenge: dispensary.NewSecret(challenge), Keys: keys,
		},
		Database:      filepath.Join(t.TempDir(), "inbox.db"),
		Logger:        slog.New(slog.NewTextHandler(b, nil)),
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
			Logs: b.logged,
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

func (b *fixture) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.String()
}

// Write takes a line of the log.
func (b *fixture) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.Write(line)
}

// indent puts a body in its place that is nicer to read, as a middleware does
// that decodes a body and encodes it again. The announced length stays what it
// was. (If the length did not change either, there would be no way to find out why the
// signature is wrong.)
func indent(r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what could not be read is no JSON
	var nice bytes.Buffer
	if json.Indent(&nice, body, "", "") != nil {
		nice = *bytes.NewBuffer(body)
	}
	r.Body = io.NopCloser(&nice)
}
