// Package mistakes contains a correct webhook endpoint and the mistakes of real receivers. A
// [Mutation] adds one mistake to the endpoint. The tests of acceptance tests use the package.
package mistakes

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// Configuration of an [Endpoint], and its response to an event.
const (
	Secret    = "whsec_current_0123456789abcdef"
	OldSecret = "whsec_old_0123456789abcdef"
	Challenge = "challenge-token-0123456789"

	Acknowledgement = `{"challenge":"` + Challenge + `"}`
)

// Patience is the time limit for immediate actions, long enough for any machine.
const Patience = 2 * time.Minute

// Endpoint is a correct endpoint with every hook: the handler of package webhook with an
// in-memory inbox.
type Endpoint struct {
	*webhook.Handler
	test   testing.TB
	config webhook.HandlerConfig
	inbox  *memoryinbox.Inbox

	mu      sync.Mutex
	gate    sync.RWMutex // held for writing while handlers are blocked
	reading sync.Mutex   // used by a mutant
	broken  bool
	handled map[string]int
	logs    bytes.Buffer
}

// New returns an endpoint after applying changes to its configuration. It closes the endpoint
// after the test.
func New(t testing.TB, changes ...func(*webhook.HandlerConfig)) *Endpoint {
	t.Helper()
	s := &Endpoint{test: t, handled: map[string]int{}}
	var err error
	s.inbox, err = memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: s.handle, Workers: 1}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.inbox.Close(context.Background()) })
	s.config = webhook.HandlerConfig{
		Environment: api.USSandbox,
		Secrets:     []api.Secret{api.NewSecret(Secret), api.NewSecret(OldSecret)},
		Challenge:   api.NewSecret(Challenge),
		Inbox:       s,
		Logger:      slog.New(slog.NewJSONHandler(s, nil)),

		AcceptTimeout: Patience,
	}
	for _, change := range changes {
		change(&s.config)
	}
	s.Handler, err = webhook.NewHandler(s.config)
	require.NoError(t, err)
	return s
}

// Accept implements [webhook.Inbox]. It fails while the storage is broken.
func (s *Endpoint) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if read(s, func() bool { return s.broken }) {
		return webhook.Receipt{}, errors.New("the disk is full")
	}
	return s.inbox.Accept(ctx, d)
}

func (s *Endpoint) handle(_ context.Context, e events.Event) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[e.ID]++
	return nil
}

// Write implements [io.Writer]. It stores the lines of the log.
func (s *Endpoint) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.Write(line)
}

// read returns a value guarded by mu.
func read[T any](s *Endpoint, value func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return value()
}

// Target returns a target for a handler that passes requests to the endpoint.
func (s *Endpoint) Target(handler http.Handler) receivercheck.Target {
	return receivercheck.Target{
		Handler: handler, Secret: Secret, Challenge: Challenge,
		Hooks: receivercheck.Hooks{
			BlockHandler: func(blocked bool) {
				if blocked {
					s.gate.Lock()
					return
				}
				s.gate.Unlock()
			},
			BreakStorage: func(broken bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.broken = broken
			},
			Handled: func(eventID string) int { return read(s, func() int { return s.handled[eventID] }) },
			Logs:    func() string { return read(s, s.logs.String) },
			WithoutSecret: func() (http.Handler, error) {
				config := s.config
				config.Secrets = nil
				return webhook.NewHandler(config)
			},
		},
		Features: receivercheck.Features{OldSecret: OldSecret, OtherEnvelopes: true},
		Timing:   receivercheck.Timing{Timeout: Patience, Patience: Patience},
	}
}
