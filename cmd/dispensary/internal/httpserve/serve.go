// Package httpserve runs the HTTP servers of commands until the command ends.
package httpserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dispensary-go/dispensary/internal/httplimit"
)

// grace is the longest time that Serve gives running requests after ctx is canceled.
const grace = 3 * time.Second

// Serve serves handler until ctx is canceled. It calls ready after it has started, and stops
// if ready returns an error. On cancellation, running requests get 3 seconds to finish. The
// context of each request is derived from ctx.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, ready func() error) error {
	server := httplimit.Server(handler)
	// A request that waits for a delivery must stop with the command.
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := ready(); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(ending) != nil {
		return server.Close()
	}
	return nil
}

// ListenError returns the error of a failed listen, with the flag name and its address in
// front.
func ListenError(name, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s: address already in use", name, addr)
	}
	if listening, ok := errors.AsType[*net.OpError](err); ok {
		err = listening.Err
	}
	return fmt.Errorf("%s %s: %w", name, addr, err)
}

// Loopback reports whether host is "localhost" or a loopback IP address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// UntilInterrupt returns a context that ends with the first interrupt or termination signal. A
// second signal ends the program immediately. Within a second it is still the first one, sent by a
// terminal to all processes and passed on by npm and other parents.
func UntilInterrupt() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return ctx
}
