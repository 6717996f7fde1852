// Package safecall calls functions of the program and protects the caller from a panic or a
// runtime.Goexit in them.
package safecall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
)

// ErrPanic matches every [Panic].
var ErrPanic = errors.New("webhook: panic")

// Panic is a caught panic. It is exported as webhook.PanicError. No way of printing shows the
// value.
type Panic struct {
	value func() any // printers show the address of a function
	stack string
}

// Value returns the value of the panic, or nil for a [runtime.Goexit].
func (p *Panic) Value() any { return p.value() }

// Stack returns the stack of the goroutine that panicked.
func (p *Panic) Stack() string { return p.stack }

// Error returns the type of the value. For a runtime error it also returns the text, which
// contains no data.
func (p *Panic) Error() string {
	switch value := p.value().(type) {
	case nil:
		return ErrPanic.Error() + ": goroutine was ended by runtime.Goexit"
	case runtime.Error:
		return ErrPanic.Error() + ": " + value.Error()
	default:
		return fmt.Sprintf("%s with a value of type %T", ErrPanic, value)
	}
}

// Unwrap returns [ErrPanic].
func (p *Panic) Unwrap() error { return ErrPanic }

// Format prints the text of [Panic.Error] for every verb.
func (p *Panic) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.Error()) }

// Run calls f and passes its error, or a [*Panic], to done. A [runtime.Goexit], such as a
// failed test assertion, still ends the goroutine, but only after done has been called.
func Run(f func() error, done func(error)) {
	returned := false
	var err error
	defer func() {
		if !returned {
			value := recover()
			err = &Panic{func() any { return value }, string(debug.Stack())}
		}
		done(err)
	}()
	err = f()
	returned = true
}

// Call calls f and returns its error, or a [*Panic].
func Call(f func() error) (err error) {
	Run(f, func(caught error) { err = caught })
	return err
}

// Value is [Call] for a function that returns a value.
func Value[T any](f func() (T, error)) (value T, err error) {
	err = Call(func() (err error) {
		value, err = f()
		return err
	})
	return value, err
}

// Isolated is [Call] on a new goroutine, so a [runtime.Goexit] does not end the caller's
// goroutine.
func Isolated(f func() error) error {
	done := make(chan error, 1)
	go Run(f, func(err error) { done <- err })
	return <-done
}

// Observe calls an observer on a new goroutine and waits for it. It logs a panic and a
// [runtime.Goexit].
func Observe(ctx context.Context, logger *slog.Logger, observe func()) {
	err := Isolated(func() error {
		observe()
		return nil
	})
	if err != nil {
		logger.ErrorContext(ctx, "webhook observer failed", "reason", err.Error())
	}
}

// Start returns start for callers that check neither nil nor panics. If start is nil, returns
// nil or fails, the result returns its argument.
func Start[T any](logger *slog.Logger, start func(context.Context, T) context.Context) func(context.Context, T) context.Context {
	if start == nil {
		return func(ctx context.Context, _ T) context.Context { return ctx }
	}
	return func(ctx context.Context, of T) context.Context {
		started := ctx
		Observe(ctx, logger, func() {
			if made := start(ctx, of); made != nil {
				started = made
			}
		})
		return started
	}
}

// End is [Start] for the other functions of an observer.
func End[T any](logger *slog.Logger, end func(context.Context, T)) func(context.Context, T) {
	if end == nil {
		return func(context.Context, T) {}
	}
	return func(ctx context.Context, of T) { Observe(ctx, logger, func() { end(ctx, of) }) }
}

// Logger returns a logger that survives its handler. If the handler panics, only that line is
// lost. A nil logger logs nothing.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(safeHandler{l.Handler()})
}

type safeHandler struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (h safeHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	_ = Call(func() error {
		enabled = h.Handler.Enabled(ctx, level)
		return nil
	})
	return enabled
}

// Handle implements [slog.Handler].
func (h safeHandler) Handle(ctx context.Context, r slog.Record) error {
	return Call(func() error { return h.Handler.Handle(ctx, r) })
}

// WithAttrs implements [slog.Handler].
func (h safeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return safeHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h safeHandler) WithGroup(name string) slog.Handler {
	return safeHandler{h.Handler.WithGroup(name)}
}
