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

// Run handles events, refreshes tokens, looks for missed webhooks and checks the health of all
// parts. It returns nil once ctx ends or [Integration.Shutdown] is called. The inbox handles
// events until Shutdown. Call Run once.
//
// Run also calls each function of work, such as the Run of a catalogsync.Catalog, and waits until
// it returns. Shutdown closes the accounts, the inbox and the databases only afterwards. A function
// that returns an error before its context ends also ends Run.
//
// It fails if Setup.KeepFresh is invalid, if it is called twice or after Shutdown, and with the
// errors of work.
func (i *Integration) Run(ctx context.Context, work ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	i.running.mu.Lock()
	rejected := i.running.cancel != nil || i.stopping.Load()
	if !rejected {
		i.running.cancel = cancel
		close(i.running.began)
		defer close(i.running.ended)
	}
	i.running.mu.Unlock()
	if rejected {
		return errors.New("integration: Run or Shutdown was called before")
	}
	var group sync.WaitGroup
	group.Go(func() { i.Health.Run(ctx) })
	for _, clinics := range i.Reconcilers {
		group.Go(func() { i.reconcile(ctx, clinics) })
	}
	problems := make([]error, len(work)+1)
	for n, of := range work {
		group.Go(func() {
			if err := of(ctx); err != nil && ctx.Err() == nil {
				problems[n] = err
				cancel()
			}
		})
	}
	problems[len(work)] = i.Accounts.KeepFresh(ctx, i.setup.KeepFresh)
	cancel()
	group.Wait()
	return errors.Join(problems...)
}

// grace is the timeout of Shutdown in [Integration.Serve].
const grace = 20 * time.Second

// Serve serves on listener and calls [Integration.Run] with work until ctx ends or the server
// fails. If ctx ends, Serve calls [Integration.Drain] and continues to serve meanwhile. Then it
// calls [Integration.Shutdown] with a timeout of 20 seconds. Allow the process more time to stop
// than both together, 25 seconds by default. If you have several servers or need another timeout,
// call Run, Drain and Shutdown yourself.
//
// An [http.Server] waits 5 seconds for connections without a request yet, as clients in tests may
// keep them.
//
// It returns the errors of the server, of Run and of Shutdown. The end of ctx is not an error.
func (i *Integration) Serve(ctx context.Context, server *http.Server, listener net.Listener, work ...func(context.Context) error) error {
	running, stop := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		stop(server.Serve(listener))
	}()
	err := i.Run(running, work...)
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
// balancers stop sending connections, and your server serves the ones still on their way. Call it
// before [Integration.Shutdown].
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

// Shutdown ends all parts in the order of their dependencies:
//   - It makes /readyz fail and ends [Integration.Run].
//   - It shuts down the servers, which wait for their requests. An [http.Server] is a server.
//     Without servers, the webhook handlers respond with 503 from now on, and the platform sends
//     the events again.
//   - It closes the inbox, which waits for its handlers.
//   - It closes the accounts, which wait until every refreshed token is stored.
//   - It closes the databases.
//
// If a part does not end before ctx, Shutdown reports it in the error and continues with the next
// part. The database of that part stays open, so that no token is lost. Call Shutdown again to
// wait longer.
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
			problems = append(problems, fmt.Errorf("integration: shutdown of %s: %w", what, err))
		}
		return err == nil
	}
	if cancel != nil {
		cancel()
		attempt("the work of Run", func(ctx context.Context) error {
			select {
			case <-i.running.ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	for _, server := range servers {
		attempt("a server", server.Shutdown)
	}
	if i.unwatch != nil {
		attempt("the inbox telemetry", func(context.Context) error { return i.unwatch() })
	}
	inboxEnded := i.Inbox == nil || attempt("the inbox", func(ctx context.Context) error {
		if cancel == nil { // waiting events need Run, which was never called
			now, end := context.WithCancel(ctx)
			end()
			ctx = now
		}
		return i.Inbox.Close(ctx)
	})
	accountsEnded := i.Accounts == nil || attempt("the accounts", i.Accounts.Close)
	if i.inbox != nil && inboxEnded {
		attempt("the inbox database", i.inbox)
	}
	if i.store != nil && accountsEnded {
		attempt("the store", i.store)
	}
	return errors.Join(problems...)
}
