package main

import (
	"bytes"
	"context"
	"database/sql"
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
	"github.com/dispensary-go/dispensary/seal"
)

const (
	secret     = "whsec_migrate_0123456789abcdef"
	nextSecret = "whsec_migrate_next_0123456789"
	challenge  = "challenge-migrate-0123456789"
)

// patient is how long things may take on a machine of any speed.
const patient = 2 * time.Minute

func TestStory(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out))
	assert.Equal(t, "the old receiver shipped, and its answer was lost; shipments so far: 1\n"+
		"the new receiver was sent both; shipments so far: 1 1\n", out.String())
}

// TestOldFails is why one migrates: the old receiver fails the cases of its
// mistakes.
func TestOldFails(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	old := &oldReceiver{db: b.db, secret: secret, challenge: challenge, logger: b.logger(), pack: b.packTogether()}
	r := b.target(old)
	r.Hooks.BreakStorage = b.breakTable("webhook_events")
	r.Timing.Patience = time.Second // it handles what it handles at once
	r.Hooks.WithoutSecret = func() (http.Handler, error) {
		open := *old
		open.secret = ""
		return &open, nil
	}
	verdicts, err := receivercheck.Examine(t.Context(), r)
	require.NoError(t, err)
	failed := map[string]bool{}
	for _, v := range verdicts {
		failed[v.Case] = v.Failed()
	}
	for _, m := range mistakes {
		for _, name := range m.cases {
			assert.True(t, failed[name], "%s: %s passes", m.what, name)
		}
	}
	assert.False(t, failed["Signature/Valid"], "on a sunny day it works")
}

func TestNewPasses(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	key, err := seal.GenerateKey("example")
	require.NoError(t, err)
	keys, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	s := settings{
		environment: dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox},
		secrets:     []dispensary.Secret{dispensary.NewSecret(secret), dispensary.NewSecret(nextSecret)}, challenge: dispensary.NewSecret(challenge), keys: keys, logger: b.logger(),
		acceptTimeout: patient,
	}
	next, err := startNew(t.Context(), b.db, s, b.pack)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, next.inbox.Close(context.WithoutCancel(t.Context()))) })
	route := &crossing{old: http.NotFoundHandler(), new: next}
	route.goOver()
	r := b.target(route)
	r.Hooks.BreakStorage = b.breakTable("dispensary_inbox")
	r.Timing.Timeout, r.Timing.Patience = patient, patient
	receivercheck.Run(t, r)
}

// fixture is a database, and everything that the checks ask about.
type fixture struct {
	db *sql.DB

	gate sync.RWMutex // held for writing while nothing can be packed
	mu   sync.Mutex
	logs strings.Builder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db, err := openShop(filepath.Join(t.TempDir(), "shop.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return &fixture{db: db}
}

func (b *fixture) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// Write takes a line of the log.
func (b *fixture) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.Write(line)
}

func (b *fixture) pack(string) error {
	b.gate.RLock()
	defer b.gate.RUnlock()
	return nil
}

// target describes a receiver that works with the fixture.
func (b *fixture) target(handler http.Handler) receivercheck.Target {
	return receivercheck.Target{
		Handler: handler, Secret: secret, Challenge: challenge,
		Hooks: receivercheck.Hooks{
			BlockHandler: func(blocked bool) {
				if blocked {
					b.gate.Lock()
					return
				}
				b.gate.Unlock()
			},
			Handled: func(eventID string) int {
				n, err := shipments(b.db, eventID)
				if err != nil {
					return 0
				}
				return n
			},
			Logs: func() string {
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.logs.String()
			},
		},
		Features: receivercheck.Features{OldSecret: nextSecret, OtherEnvelopes: true},
	}
}

// packTogether packs two orders at a time, if there are two.
func (b *fixture) packTogether() func(string) error {
	meet := make(chan struct{})
	return func(eventID string) error {
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-time.After(20 * time.Millisecond):
		}
		return b.pack(eventID)
	}
}

// breakTable makes a table refuse rows, as a full disk would.
func (b *fixture) breakTable(table string) func(bool) {
	return func(broken bool) {
		change := `DROP TRIGGER broken`
		if broken {
			change = `CREATE TRIGGER broken BEFORE INSERT ON ` + table + ` BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`
		}
		if _, err := b.db.Exec(change); err != nil {
			panic(err)
		}
	}
}
