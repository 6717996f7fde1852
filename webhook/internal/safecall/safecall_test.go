package safecall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

const marked = "Zaphod-Marked" // stands for patient data

var errDown = errors.New("down")

// failureTexts collects the texts of failed assertions.
type failureTexts struct{ strings.Builder }

func (f *failureTexts) Errorf(format string, args ...any) { fmt.Fprintf(f, format, args...) }

func TestPanicsBecomeErrors(t *testing.T) {
	t.Parallel()
	var nilMap map[string]int
	for text, f := range map[string]func() error{
		"webhook: panic with a value of type string":            func() error { panic(marked) },
		"webhook: panic: assignment to entry in nil map":        func() error { nilMap["x"]++; return nil },
		"webhook: panic: goroutine was ended by runtime.Goexit": func() error { runtime.Goexit(); return nil },
	} {
		err := safecall.Isolated(f)
		require.ErrorIs(t, err, safecall.ErrPanic)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			assert.Equal(t, text, fmt.Sprintf(verb, err))
		}
		var caught *safecall.Panic
		require.ErrorAs(t, err, &caught)
		assert.Contains(t, caught.Stack(), "safecall_test.go")
	}
	err := safecall.Call(func() error { panic(marked) })
	var caught *safecall.Panic
	require.ErrorAs(t, err, &caught)
	assert.Equal(t, marked, caught.Value())
	var dump failureTexts
	assert.False(t, assert.ElementsMatch(&dump, []any{err}, []any{1})) // by reflection
	assert.NotContains(t, dump.String(), marked)
	require.Equal(t, errDown, safecall.Call(func() error { return errDown }))
	require.NoError(t, safecall.Isolated(func() error { return nil }))
}

func TestObserverFailureIsLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	made, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := func(hook func(context.Context, int) context.Context) context.Context {
		return safecall.Start(logger, hook)(t.Context(), 1)
	}
	assert.Equal(t, made, start(func(context.Context, int) context.Context { return made }))
	assert.Equal(t, t.Context(), start(func(context.Context, int) context.Context { return nil }))
	assert.Equal(t, t.Context(), start(nil))
	safecall.End[int](logger, nil)(t.Context(), 1)
	assert.Empty(t, out.String())
	assert.Equal(t, t.Context(), start(func(context.Context, int) context.Context { panic(marked) }))
	assert.Equal(t, t.Context(), start(func(context.Context, int) context.Context { runtime.Goexit(); return nil }))
	safecall.End(logger, func(context.Context, int) { panic(marked) })(t.Context(), 1)
	safecall.End(logger, func(context.Context, int) { runtime.Goexit() })(t.Context(), 1)
	assert.Equal(t, 4, strings.Count(out.String(), "webhook observer failed"))
	assert.NotContains(t, out.String(), marked)
}

// broken is a handler that panics.
type broken struct{ slog.Handler }

func (broken) Handle(context.Context, slog.Record) error { panic("no disk") }
func (b broken) WithAttrs([]slog.Attr) slog.Handler      { return b }
func (b broken) WithGroup(string) slog.Handler           { return b }

// A panicking handler loses only its own lines.
func TestLoggerSurvivesPanickingHandler(t *testing.T) {
	t.Parallel()
	l := safecall.Logger(slog.New(broken{slog.Default().Handler()}))
	assert.NotPanics(t, func() { l.With("a", 1).WithGroup("b").Info("x") })
	assert.NotPanics(t, func() { safecall.Logger(nil).Info("x") })
	l = safecall.Logger(slog.New(undecided{slog.DiscardHandler}))
	assert.NotPanics(t, func() { l.With("a", 1).WithGroup("b").Info("x") })
	assert.False(t, l.Enabled(t.Context(), slog.LevelError))
}

// undecided is a handler that panics in Enabled, as a handler may that reads its level from a
// context.
type undecided struct{ slog.Handler }

func (undecided) Enabled(context.Context, slog.Level) bool { panic("no level") }
func (u undecided) WithAttrs([]slog.Attr) slog.Handler     { return u }
func (u undecided) WithGroup(string) slog.Handler          { return u }
