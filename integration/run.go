package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Run handles events, keeps tokens fresh, looks for missed webhooks and checks the health
// of the parts until ctx ends or [Integration.Shutdown] is called, and returns nil then.
// Events go on being handled until Shutdown. It is called once.
//
// Errors: what is wrong with Setup.KeepFresh, and being called twice or after Shutdown.
func (i *Integration) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	i.running.mu.Lock()
	refused := i.running.cancel != nil || i.stopping.Load()
	if !refused {
		i.running.cancel = cancel
		close(i.running.began)
		defer close(i.running.ended)
	}
	i.running.mu.Unlock()
	if refused {
		return errors.New("integration: Run was called before, or Shutdown was")
	}
	var group sync.WaitGroup
	group.Go(func() { i.Health.Run(ctx) })
	for _, clinics := range i.Reconcilers {
		group.Go(func() { i.reconcile(ctx, clinics) })
	}
	err := i.Accounts.KeepFresh(ctx, i.setup.KeepFresh)
	cancel()
	group.Wait()
	return err
}

// grace is how long [Integration.Serve] waits for everything to end.
const grace = 20 * time.Second

// Serve serves on listener and calls [Integration.Run], until ctx ends or the server fails.
// If ctx ends, it calls [Integration.Drain] and goes on serving meanwhile. Then it calls
// [Integration.Shutdown], which it gives 20 seconds. Give the process more time to stop
// than the sum of both, which is 25 seconds by default. Programs with other servers, or
// another grace, call the four themselves.
//
// Errors: those of the server, of Run and of Shutdown, but not the end of ctx.
func (i *Integration) Serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	running, stop := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		stop(server.Serve(listener))
	}()
	err := i.Run(running)
	if ctx.Err() == nil && running.Err() != nil {
		err = errors.Join(err, context.Cause(running))
	}
	if ctx.Err() != nil {
		i.drainUntil(served)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(err, i.Shutdown(ending, server))
	<-served
	return err
}

// Drain makes /readyz fail and then waits for Setup.Drain, or until ctx ends. Meanwhile load
// balancers notice and send no more connections, and those that they still send are
// served. Call it before [Integration.Shutdown].
func (i *Integration) Drain(ctx context.Context) { i.drainUntil(ctx.Done()) }

func (i *Integration) drainUntil(ended <-chan struct{}) {
	i.Health.Drain()
	pause := time.NewTimer(max(i.setup.Drain, 0))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ended:
	}
}

// Shutdown ends everything in the order in which one thing needs the other: it makes
// /readyz fail, ends [Integration.Run], then the servers, which wait for their requests,
// then the inbox, which waits for its handlers, then the accounts, which wait until every
// refreshed token is stored, and then the databases. Without servers, webhooks are
// answered with 503 from then on, and the platform sends them again.
//
// What does not end by the time that ctx does is left behind and reported, and everything
// else is attempted; the database of what did not end stays open, so that no token is
// lost. Shutdown can be called again to wait longer. An [http.Server] is a server.
func (i *Integration) Shutdown(ctx context.Context, servers ...interface{ Shutdown(context.Context) error }) error {
	i.running.mu.Lock()
	i.stopping.Store(true)
	cancel := i.running.cancel
	i.running.mu.Unlock()
	if i.Health != nil { // nil if Open fails
		i.Health.Drain()
	}
	var problems []error
	attempt := func(what string, end func(context.Context) error) bool {
		err := end(ctx)
		if err != nil {
			problems = append(problems, fmt.Errorf("integration: ending %s: %w", what, err))
		}
		return err == nil
	}
	if cancel != nil {
		cancel()
		attempt("the reconcilers", func(ctx context.Context) error {
			return within(ctx, func() error { <-i.running.ended; return nil })
		})
	}
	for _, server := range servers {
		attempt("a server", server.Shutdown)
	}
	if i.unwatch != nil {
		attempt("the telemetry of the inbox", func(context.Context) error { return i.unwatch() })
	}
	inboxEnded := i.Inbox == nil || attempt("the inbox", func(ctx context.Context) error {
		if cancel == nil { // events wait for Run, which does not come
			now, end := context.WithCancel(ctx)
			end()
			ctx = now
		}
		return i.Inbox.Close(ctx)
	})
	accountsEnded := i.Accounts == nil || attempt("the accounts", i.Accounts.Close)
	if i.inbox != nil && inboxEnded {
		attempt("the inbox's database", i.inbox)
	}
	if i.store != nil && accountsEnded {
		attempt("the store", i.store)
	}
	return errors.Join(problems...)
}

// within waits for what cannot be interrupted until ctx ends.
func within(ctx context.Context, end func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
