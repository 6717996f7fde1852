package httpserve

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// UntilInterrupt returns a context that ends with the first interrupt or termination signal. A
// second signal ends the program immediately. Within a second it is still the first one, sent by a
// terminal to all processes and passed on by npm and other parents.
func UntilInterrupt() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return ctx
}
