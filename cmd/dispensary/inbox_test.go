package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/postgrestest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// receiver is a program that has the inbox open, and has given up five events.
type receiver struct {
	inbox   engine.Engine
	works   atomic.Bool
	handled chan string
}

func (f *fixture) receiver() *receiver {
	f.t.Helper()
	f.variables["DISPENSARY_STORE"] = "memory:"
	f.variables["DISPENSARY_SEAL_KEYS"] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	config, err := integration.Load(func(name string) (string, bool) { value, ok := f.variables[name]; return value, ok })
	require.NoError(f.t, err)
	r := &receiver{handled: make(chan string, 10)}
	app, err := integration.Open(f.t.Context(), config, integration.Setup{Work: webhook.Work{
		Handle: func(_ context.Context, e events.Event) error {
			if !r.works.Load() {
				return webhook.Permanent(errors.New("canary"))
			}
			r.handled <- e.ID
			return nil
		},
	}})
	require.NoError(f.t, err)
	running := make(chan error, 1)
	go func() { running <- app.Run(context.WithoutCancel(f.t.Context())) }()
	f.t.Cleanup(func() {
		assert.NoError(f.t, app.Shutdown(context.Background()))
		assert.NoError(f.t, <-running)
	})
	r.inbox = app.Inbox
	for n := range 5 {
		r.accept(f.t, n)
	}
	require.Eventually(f.t, func() bool {
		stats, err := r.inbox.Stats(f.t.Context())
		return err == nil && stats.Dead == 5
	}, time.Minute, 10*time.Millisecond)
	return r
}

// accept takes an event in: orders have even numbers.
func (r *receiver) accept(t *testing.T, n int) {
	t.Helper()
	kind := events.PatientCreated
	if n%2 == 0 {
		kind = events.OrderPlaced
	}
	_, err := r.inbox.Accept(t.Context(), webhook.Delivery{
		Key:  webhook.Key{Environment: dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox}, EventID: fmt.Sprint("evt_", n), IntegrationID: "in_1"},
		Type: kind, ClinicID: "cl_1", ReceivedAt: time.Now(),
		Body: fmt.Appendf(nil, `{"event":{"id":"evt_%d","type":%q,"clinic_id":"cl_1","data":{}}}`, n, kind),
	})
	require.NoError(t, err)
}

// document runs a command with --json that prints one document of its schema.
func (f *fixture) document(name string, into any, args ...string) {
	f.t.Helper()
	code, out, stderr := f.run(append(append(strings.Fields(name), "--json"), args...)...)
	require.Equal(f.t, exitDone, code, stderr)
	require.Equal(f.t, 1, assertDocuments(f.t, name, out))
	require.NoError(f.t, json.Unmarshal([]byte(out), into))
}

// The inbox is worked with while another process, which this one stands for, has it open.
func TestInbox(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "inbox.db") },
		"postgres": postgrestest.Schema,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.variables["DISPENSARY_INBOX"] = address(t)
			r := f.receiver()
			delete(f.variables, "DISPENSARY_SEAL_KEYS") // no body is read
			delete(f.variables, "DISPENSARY_STORE")

			var stats struct{ Waiting, Running, Dead int }
			f.document("inbox stats", &stats)
			assert.Equal(t, 5, stats.Dead)
			code, out, _ := f.run("inbox", "stats")
			assert.Equal(t, exitDone, code)
			assert.Equal(t, "0\t0\t5\t-\n", out)

			code, out, stderr := f.run("inbox", "dead", "--json", "--type", "order.placed")
			require.Equal(t, exitDone, code, stderr)
			assert.Equal(t, 3, assertDocuments(t, "inbox dead", out))
			assert.NotContains(t, out, "canary")
			assert.Empty(t, stderr)
			_, out, stderr = f.run("inbox", "dead", "--max", "2", "--before", time.Now().Add(time.Hour).Format(time.RFC3339))
			assert.Equal(t, 2, strings.Count(out, "\n"), out)
			assert.Equal(t, "2 of 5 dead letters are listed; see --max\n", stderr)
			_, _, stderr = f.run("inbox", "dead", "--max", "5")
			assert.Empty(t, stderr)
			key, _, _ := strings.Cut(out, "\t")
			_, out, _ = f.run("inbox", "dead", "--from", time.Now().Add(time.Hour).Format(time.RFC3339))
			assert.Empty(t, out)

			var report changeReport
			f.document("inbox replay", &report, "--all", "--dry-run", "--max", "4")
			assert.Equal(t, changeReport{true, 5, 4, report.Types, map[string]int{"cl_1": 4}, report.Reasons}, report)
			f.document("inbox stats", &stats)
			assert.Equal(t, 5, stats.Dead, "nothing was changed")

			f.document("inbox discard", &report, key)
			assert.Equal(t, []int{1, 1}, []int{report.Matched, report.Changed})
			r.works.Store(true)
			code, out, stderr = f.run("inbox", "replay", "--type", "patient.created")
			require.Equal(t, exitDone, code, stderr)
			assert.Regexp(t, `^replay\t\d\tof \d\ntype\t\d\tpatient.created\nclinic\t`, out)
			f.document("inbox replay", &report, "--all")
			f.document("inbox stats", &stats)
			assert.Zero(t, stats.Dead)
			r.accept(t, 7) // wakes SQLite's, which looks every minute
			for range 5 {
				<-r.handled
			}
			f.document("inbox discard", &report, "--all")
			assert.Zero(t, report.Changed)
		})
	}
}

func TestInboxRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refused("DISPENSARY_INBOX is empty", "inbox", "stats")
	f.variables["DISPENSARY_INBOX"] = "memory:"
	f.refused("DISPENSARY_INBOX is in memory, which only its own process has", "inbox", "stats")
	missing := filepath.Join(t.TempDir(), "inbox.db")
	f.variables["DISPENSARY_INBOX"] = "sqlite:" + missing
	for _, args := range [][]string{{"stats"}, {"dead"}, {"replay", "--all"}, {"discard", "--all"}} {
		f.refused("no such file", append([]string{"inbox"}, args...)...)
	}
	assert.NoFileExists(t, missing)
	require.NoError(t, os.WriteFile(missing, []byte("this is no database, whatever its name says it may be"), 0o600))
	f.refused("not a database", "inbox", "stats")
	f.variables["DISPENSARY_INBOX"] = "postgres://nobody@" + freeAddress(t) + "/none"
	f.refused("connection refused", "inbox", "stats")

	f.refused("there is no command \"sats\": did you mean stats?", "inbox", "sats")
	f.refused("wants keys or a filter, or else --all", "inbox", "discard")
	f.refused("wants keys or a filter, or else --all", "inbox", "replay", "--all", "--type", "x")
	f.refused("is no key of an event", "inbox", "replay", "evt_1")
	f.refused("--max: at least 1", "inbox", "dead", "--max", "0")
	f.refused("--from: not a time", "inbox", "dead", "--from", "monday")
	for _, name := range []string{"BASE_URL", "AUTH_URL"} {
		f.variables["DISPENSARY_US_PRODUCTION_"+name] = f.variables["DISPENSARY_US_SANDBOX_"+name]
	}
	f.refused("add --production", "inbox", "discard", "--all")
}
