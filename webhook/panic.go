package webhook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
)

// PanicError is a panic that was caught. Its text names the type of what was
// panicked with and not the value, which may repeat patient data.
type PanicError struct{ detail *panicDetail }

type panicDetail struct {
	value any
	stack []byte
}

// Value returns what was panicked with; nil for a [runtime.Goexit].
func (e *PanicError) Value() any { return e.detail.value }

// Stack returns the stack of the goroutine that panicked.
func (e *PanicError) Stack() string { return string(e.detail.stack) }

// Error returns the type of the value, and the text of an error of the runtime,
// which holds no data.
func (e *PanicError) Error() string {
	switch value := e.detail.value.(type) {
	case nil:
		return ErrPanic.Error() + ": goroutine was ended by runtime.Goexit"
	case runtime.Error:
		return ErrPanic.Error() + ": " + value.Error()
	default:
		return fmt.Sprintf("%s with a value of type %T", ErrPanic, value)
	}
}

// Unwrap returns [ErrPanic].
func (e *PanicError) Unwrap() error { return ErrPanic }

// Format prints the text of [PanicError.Error] for every verb.
func (e *PanicError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// protect runs f and turns a panic, or a runtime.Goexit, into the error that it
// gives to settle. After a Goexit, such as a failed test assertion makes, the
// goroutine still ends, but settle has been called.
func protect(f func() error, settle func(error)) {
	returned := false
	var err error
	defer func() {
		if !returned {
			err = &PanicError{&panicDetail{recover(), debug.Stack()}}
		}
		settle(err)
	}()
	err = f()
	returned = true
}

// guard runs f and turns a panic into its error.
func guard(f func() error) (err error) {
	protect(f, func(caught error) { err = caught })
	return err
}

// shield runs an observer. A panic in it is logged and goes no further: it must
// not break off an answer that has been given, nor end the process.
func shield(ctx context.Context, logger *slog.Logger, observe func()) {
	protect(func() error {
		observe()
		return nil
	}, func(err error) {
		if err != nil {
			logger.ErrorContext(ctx, "webhook observer failed", "reason", err.Error())
		}
	})
}

// newLogger returns a logger whose handler cannot end the goroutine that logs, be
// it that of a worker or of a request; nil stands for silence.
func newLogger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(guardedLog{l.Handler()})
}

// guardedLog loses the line that its handler panics with.
type guardedLog struct{ slog.Handler }

// Handle implements [slog.Handler].
func (g guardedLog) Handle(ctx context.Context, r slog.Record) error {
	return guard(func() error { return g.Handler.Handle(ctx, r) })
}

// WithAttrs implements [slog.Handler].
func (g guardedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return guardedLog{g.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (g guardedLog) WithGroup(name string) slog.Handler { return guardedLog{g.Handler.WithGroup(name)} }
