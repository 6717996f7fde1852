package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func succeed(context.Context, events.Event) error { return nil }

// server is a server whose Shutdown is a function.
type server func(context.Context) error

func (s server) Shutdown(ctx context.Context) error { return s(ctx) }

// own opens the file of an integration a second time.
func own(t *testing.T, path string) *sql.DB {
	t.Helper()
	dsn, err := sqlinbox.DSN(path)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
}

// delivery returns an event as a webhook handler passes it to an inbox.
func delivery(id string) webhook.Delivery {
	return webhook.Delivery{
		Key: webhook.Key{Environment: us, EventID: id}, Type: events.TypeOrderPlaced, ReceivedAt: time.Now(),
		Body: []byte(`{"event":{"id":"` + id + `","type":"order.placed","data":{"id":"or_1"}}}`),
	}
}

// The error of a function ends Run, and so Serve. Its end without an error does not.
func TestRunEndsWithFailedWork(t *testing.T) {
	t.Parallel()
	f, _ := newFileFixture(t)
	i := f.open(t, f.setup(succeed))
	err := i.Run(t.Context(), func(context.Context) error { return nil }, func(context.Context) error { return assert.AnError },
		func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	require.ErrorIs(t, err, assert.AnError)
	require.NotErrorIs(t, err, context.Canceled, "the end of the others is no error")
}

// Shutdown ends each part before the parts it depends on. The inbox accepts events during the
// shutdown of the server, and a running handler can still call the API for its user.
func TestShutdownEndsDependentsFirst(t *testing.T) {
	t.Parallel()
	f, _ := newFileFixture(t)
	var i *integration.Integration
	handling, goOn := make(chan struct{}), make(chan struct{})
	called := make(chan error, 1)
	setup := f.setup(func(ctx context.Context, _ events.Event) error {
		close(handling)
		<-goOn
		client, err := i.Accounts.Client(ctx, "us:dr-1")
		if err == nil {
			_, err = client.Clinic.Get(ctx)
		}
		called <- err
		return err
	})
	reconciling := make(chan struct{})
	first := sync.OnceFunc(func() { close(reconciling) })
	var reconciled atomic.Bool
	setup.Reconcile.Observer = reconcile.Observer{
		RunEnd: func(ctx context.Context, _ reconcile.Report, _ error) {
			first()
			<-ctx.Done()
			reconciled.Store(true)
		},
	}
	i = f.open(t, setup)
	f.connect(t, us, "us:dr-1")
	var worked atomic.Bool
	work := func(ctx context.Context) error {
		<-ctx.Done()
		_, err := i.Accounts.Status(t.Context(), "us:dr-1")
		worked.Store(err == nil)
		return ctx.Err()
	}
	ran := make(chan error, 1)
	go func() { ran <- i.Run(t.Context(), work) }()
	<-reconciling
	_, err := i.Inbox.Accept(t.Context(), delivery("evt_1"))
	require.NoError(t, err)
	<-handling

	ended := make(chan error, 1)
	atServer := make(chan struct{})
	go func() {
		ended <- i.Shutdown(context.Background(), server(func(ctx context.Context) error {
			assert.True(t, reconciled.Load() && worked.Load(), "the work of Run ends before the servers")
			assert.NoError(t, <-ran)
			code, found := f.ready(t, "/readyz")
			assert.Equal(t, http.StatusServiceUnavailable, code)
			assert.Equal(t, "failing", found["shutdown"])
			assert.Equal(t, "ok", found["store"])
			code, _ = f.ready(t, "/healthz")
			assert.Equal(t, http.StatusOK, code)
			receipt, err := i.Inbox.Accept(ctx, delivery("evt_1"))
			assert.NoError(t, err)
			assert.True(t, receipt.Duplicate)
			close(atServer)
			return nil
		}))
	}()
	<-atServer
	select {
	case err := <-ended:
		require.Fail(t, "Shutdown returned before the handler", "%v", err)
	default:
	}
	close(goOn)
	require.NoError(t, <-called)
	require.NoError(t, <-ended)

	_, err = i.Inbox.Accept(t.Context(), delivery("evt_2"))
	require.ErrorIs(t, err, webhook.ErrInboxClosed)
	_, err = i.Accounts.Status(t.Context(), "us:dr-1")
	require.ErrorContains(t, err, "database is closed")
	require.NoError(t, i.Shutdown(t.Context()), "second Shutdown")
	require.Error(t, i.Run(t.Context()), "Run after Shutdown")
}

func TestShutdownContinuesAfterErrors(t *testing.T) {
	t.Parallel()
	f, _ := newFileFixture(t)
	i := f.open(t, f.setup(succeed))
	stuck := errors.New("stuck")
	err := i.Shutdown(t.Context(), server(func(context.Context) error { return stuck }), server(func(context.Context) error { return http.ErrServerClosed }))
	require.ErrorIs(t, err, stuck)
	require.ErrorIs(t, err, http.ErrServerClosed)
	_, err = i.Inbox.Accept(t.Context(), delivery("evt_1"))
	require.ErrorIs(t, err, webhook.ErrInboxClosed)
	_, err = i.Accounts.Status(t.Context(), "us:dr-1")
	require.ErrorContains(t, err, "database is closed")
}

// The store rejects a refreshed token for a while. A shutdown with a short timeout does not lose
// the token.
func TestShutdownKeepsStoreForPendingTokens(t *testing.T) {
	t.Parallel()
	f, path := newFileFixture(t)
	db := own(t, path)
	delayed := make(chan struct{}, 1)
	setup := f.setup(succeed)
	setup.Accounts.Tokens.Observers = []tokens.Observer{{CommitDelayed: func(context.Context, tokens.CommitDelayed) { delayed <- struct{}{} }}}
	i := f.open(t, setup)
	f.connect(t, us, "us:dr-1")
	exec(t, db, `CREATE TRIGGER broken BEFORE UPDATE ON dispensary_oauth_tokens WHEN NEW.access_token <> OLD.access_token
		BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	conns, err := i.Accounts.Connections(us)
	require.NoError(t, err)
	source := conns.TokenSource("us:dr-1")
	token, err := source.Token(t.Context())
	require.NoError(t, err)
	go func() { _, _ = source.Refresh(context.Background(), token) }()
	<-delayed
	code, found := f.ready(t, "/readyz?strict")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "degraded", found["refresh us/sandbox"])

	hasty, cancel := context.WithCancel(t.Context())
	cancel()
	err = i.Shutdown(hasty)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "1 token pairs not stored")
	exec(t, db, "DROP TRIGGER broken")
	require.NoError(t, i.Shutdown(t.Context()))

	again := f.open(t, f.setup(succeed))
	client, err := again.Accounts.Client(t.Context(), "us:dr-1")
	require.NoError(t, err)
	_, err = client.Clinic.Get(t.Context())
	require.NoError(t, err)
}

func TestRunIsCalledOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	i := f.open(t, f.setup(succeed))
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- i.Run(ctx) }()
	cancel()
	require.NoError(t, <-ran, "end of ctx")
	require.ErrorContains(t, i.Run(t.Context()), "called before")

	setup := f.setup(succeed)
	setup.KeepFresh.Interval = -1
	require.ErrorIs(t, f.open(t, setup).Run(t.Context()), api.ErrArgument)
}

func TestReadyzShowsEachPart(t *testing.T) {
	t.Parallel()
	f, path := newFileFixture(t)
	db := own(t, path)
	setup := f.setup(succeed)
	setup.OldestWaiting = time.Hour
	i := f.open(t, setup) // without Run, so that events wait
	const rejected = 10   // enough for the alarm
	for n := range rejected {
		f.connect(t, us, fmt.Sprint("us:dr-", n))
	}
	expect := func(code, strict int, part, status string) {
		t.Helper()
		got, found := f.ready(t, "/readyz")
		assert.Equal(t, code, got)
		assert.Equal(t, status, found[part])
		for name, other := range found {
			assert.True(t, name == part || other == "ok", name)
		}
		got, _ = f.ready(t, "/readyz?strict")
		assert.Equal(t, strict, got)
	}
	expect(200, 200, "store", "ok")

	exec(t, db, "ALTER TABLE dispensary_oauth_tokens RENAME TO elsewhere")
	expect(503, 503, "store", "failing")
	exec(t, db, "ALTER TABLE elsewhere RENAME TO dispensary_oauth_tokens")

	_, err := i.Inbox.Accept(t.Context(), delivery("evt_1"))
	require.NoError(t, err)
	expect(200, 200, "inbox", "ok")
	exec(t, db, "UPDATE dispensary_inbox SET received_at = received_at - 2 * 3600 * 1000000")
	expect(200, 503, "inbox", "degraded")
	exec(t, db, "ALTER TABLE dispensary_inbox RENAME TO elsewhere")
	expect(503, 503, "inbox", "failing")
	exec(t, db, "ALTER TABLE elsewhere RENAME TO dispensary_inbox", "UPDATE dispensary_inbox SET received_at = received_at + 2 * 3600 * 1000000")

	conns, err := i.Accounts.Connections(us)
	require.NoError(t, err)
	f.platforms[us].Tokens.InvalidateAll()
	for n := range rejected {
		source := conns.TokenSource(fmt.Sprint("us:dr-", n))
		token, err := source.Token(t.Context())
		require.NoError(t, err)
		_, err = source.Refresh(t.Context(), token)
		require.Error(t, err)
	}
	expect(200, 503, "refresh us/sandbox", "degraded")
}

func TestOpenRejectsInvalidSetup(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("sqlite:"+file(t), "sqlite:"+file(t))
	_, err := integration.Open(t.Context(), integration.Config{}, integration.Setup{})
	require.ErrorContains(t, err, "integration.Config.Store is empty")

	config := f.config(t)
	config.StateKeys = nil
	setup := f.setup(nil)
	setup.Accounts.Locate = nil
	setup.Webhooks.Challenge, setup.OAuth.ClientID, setup.Reconcile.Environment, setup.ReconcileEvery, setup.OldestWaiting = dispensary.NewSecret("canary"), "canary", "canary", -1, -1
	own := func(context.Context) health.Result { return health.Result{Status: health.StatusFailing} }
	setup.Checks = map[string]health.Check{"own": own, "store us/sandbox": own, "alarm mars": own}
	builtIn := []string{"store", "inbox", "alarm us/sandbox", "refresh us/sandbox", "reconcile ca/production"}
	for _, name := range builtIn {
		setup.Checks[name] = own
	}
	_, err = integration.Open(t.Context(), config, setup)
	for _, name := range builtIn {
		require.ErrorContains(t, err, `integration.Setup.Checks contains "`+name+`"`)
	}
	for _, want := range []string{
		"DISPENSARY_STATE_KEYS is empty, but the browser flow", "integration.Setup.Work.Handle is nil", "integration.Setup.Accounts.Locate is nil",
		"integration.Setup.Webhooks.Challenge must be left empty", "integration.Setup.OAuth.ClientID must be", "integration.Setup.Reconcile.Environment must be",
		"integration.Setup.ReconcileEvery is negative", "integration.Setup.OldestWaiting is negative",
	} {
		require.ErrorContains(t, err, want)
	}
	assert.Len(t, problems(t, err), 8+len(builtIn))

	config = f.config(t)
	config.Store = dispensary.NewSecret("sqlite:/no/such/folder/tokens.db")
	_, err = integration.Open(t.Context(), config, f.setup(succeed))
	require.ErrorContains(t, err, "integration: store")
}

// If Open fails, it closes the parts it has opened, even if events wait.
func TestFailedOpenClosesParts(t *testing.T) {
	t.Parallel()
	f, _ := newFileFixture(t)
	i := f.open(t, f.setup(succeed))
	_, err := i.Inbox.Accept(t.Context(), delivery("evt_1"))
	require.NoError(t, err)
	require.NoError(t, i.Shutdown(t.Context()))

	setup := f.setup(succeed)
	setup.Work.HandlerTimeout = 24 * time.Hour // Open must not wait so long
	setup.Webhooks.MaxBody = -1                // Open finds this after it has opened the inbox
	_, err = integration.Open(t.Context(), f.config(t), setup)
	require.ErrorIs(t, err, api.ErrArgument)
	require.NotErrorIs(t, err, sqlinbox.ErrInUse)

	handled := make(chan events.Event, 1)
	i = f.open(t, f.setup(func(ctx context.Context, e events.Event) error {
		assert.Equal(t, 1, webhook.HandlingFrom(ctx).Attempt, "attempts without the wait for Run")
		handled <- e
		return nil
	}))
	go func() { _ = i.Run(t.Context()) }()
	assert.Equal(t, "evt_1", (<-handled).ID)
	require.NoError(t, i.Shutdown(t.Context()))
}

// Serve shuts down at the end of its context and after an error of the server.
func TestServeShutsDown(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]bool{"end of context": false, "server error": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).kept("memory:", "memory:")
			setup := f.setup(succeed)
			setup.Drain = -1
			i := f.open(t, setup)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			served := make(chan error, 1)
			go func() { served <- i.Serve(ctx, &http.Server{Handler: i.Health}, listener) }()
			require.Eventually(t, func() bool { return readyz(t, listener) == http.StatusOK }, time.Minute, 10*time.Millisecond)
			if breaks {
				require.NoError(t, listener.Close())
				assert.ErrorIs(t, <-served, net.ErrClosed)
			} else {
				cancel(errors.New("interrupted"))
				assert.NoError(t, <-served, "the end of ctx is not an error")
			}
			assert.Error(t, i.Run(t.Context()), "Run after Serve")
			_, err = i.Inbox.Accept(t.Context(), delivery("evt_1"))
			assert.Error(t, err)
		})
	}
}

// readyz returns the status of the response to a health check over a new connection.
func readyz(t *testing.T, listener net.Listener) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/readyz", nil)
	require.NoError(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// /readyz fails before the port closes. Meanwhile webhooks are accepted and handled.
func TestServeDrainsBeforeShutdown(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	handled := make(chan events.Event, 1)
	setup := f.setup(func(_ context.Context, e events.Event) error { handled <- e; return nil })
	setup.Drain = time.Hour
	i := f.open(t, setup)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := &http.Server{Handler: i.Health}
	served := make(chan error, 1)
	go func() { served <- i.Serve(ctx, server, listener) }()
	require.Eventually(t, func() bool { return readyz(t, listener) == http.StatusOK }, time.Minute, 10*time.Millisecond)
	cancel()
	require.Eventually(t, func() bool { return readyz(t, listener) == http.StatusServiceUnavailable }, time.Minute, 10*time.Millisecond)
	_, err = i.Inbox.Accept(t.Context(), delivery("evt_1"))
	require.NoError(t, err)
	assert.Equal(t, "evt_1", (<-handled).ID)
	assert.Equal(t, http.StatusServiceUnavailable, readyz(t, listener))
	require.NoError(t, server.Close()) // ends the drain
	require.NoError(t, <-served)
}

func TestDrainWaitsForContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	i := f.open(t, f.setup(succeed))
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		i.Drain(ctx)
	}()
	require.Eventually(t, func() bool {
		_, found := f.ready(t, "/readyz")
		return found["shutdown"] == "failing"
	}, time.Minute, 10*time.Millisecond)
	cancel()
	<-drained
}

// An integration claims no event before Run, even one whose handler timeout passes. A process that
// never calls Run, such as a job, does not hold up the service beside it.
func TestOpenClaimsNoEvents(t *testing.T) {
	t.Parallel()
	path := file(t)
	for name, inbox := range map[string]string{"memory": "memory:", "sqlite": "sqlite:" + path, "postgres": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if inbox == "" {
				inbox = postgrestest.Schema(t)
			}
			f := newFixture(t).kept("memory:", inbox)
			var running atomic.Bool
			handled := make(chan webhook.Handling, 3)
			setup := f.setup(func(ctx context.Context, _ events.Event) error {
				assert.True(t, running.Load(), "must wait for Run")
				handled <- webhook.HandlingFrom(ctx)
				return nil
			})
			setup.Work.HandlerTimeout = time.Minute
			i := f.open(t, setup)
			if name == "postgres" {
				f.open(t, f.setup(func(context.Context, events.Event) error {
					assert.Fail(t, "this process does not run")
					return nil
				}))
			}
			for n := range 3 {
				_, err := i.Inbox.Accept(t.Context(), delivery(fmt.Sprint("evt_", n)))
				require.NoError(t, err)
			}
			stats, err := i.Inbox.Stats(t.Context())
			require.NoError(t, err)
			assert.Equal(t, engine.Stats{Waiting: 3, Oldest: stats.Oldest}, stats)
			running.Store(true)
			go func() { _ = i.Run(t.Context()) }()
			for range 3 {
				assert.Equal(t, 1, (<-handled).Attempt)
			}
		})
	}
}
