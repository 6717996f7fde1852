package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"
)

// Run runs all checks immediately and then every 5 seconds until ctx ends. It returns after
// the checks have returned, so a program can then close their resources. It does not wait for
// a check that hangs. Call it in its own goroutine.
func (h *Handler) Run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		h.Check(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Check runs all checks once and waits for their results, for at most 2.5 seconds. The context
// of each check ends after 2 seconds. Use Check in tests, or if you do not call Run. If ctx
// ends, the contexts of the checks end too, and the previous results stay.
func (h *Handler) Check(ctx context.Context) {
	began := time.Now()
	patience := time.NewTimer(timeout + timeout/4)
	defer patience.Stop()
	under := map[string]*running{}
	for name, check := range h.config.Checks {
		under[name] = h.start(ctx, name, check)
	}
	found := map[string]outcome{}
	for name, one := range under {
		found[name] = one.wait(patience)
	}
	if ctx.Err() != nil {
		return
	}
	for name, result := range found {
		h.note(ctx, name, result)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.checked = found, began
}

// running is a check in progress.
type running struct {
	done   chan struct{}
	result outcome // valid after done is closed
}

// outcome is the result of a check for responses and logs.
type outcome struct {
	status  Status
	details json.RawMessage // nil for none
	err     error
	stack   string // set if the check panicked
	omitted bool   // details could not be encoded
}

var errSlow = errors.New("health: check takes too long")

// wait returns the result of the check, or a failing outcome if the check takes too long. A
// finished check counts even if another check has used all the time.
func (r *running) wait(patience *time.Timer) outcome {
	select {
	case <-r.done:
		return r.result
	default:
	}
	select {
	case <-r.done:
		return r.result
	case <-patience.C:
		patience.Reset(0) // so that the next check does not wait
		return outcome{status: StatusFailing, err: errSlow}
	}
}

// start starts a check. If the check is still running, start returns the running one.
func (h *Handler) start(ctx context.Context, name string, check Check) *running {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.running[name]; one != nil {
		return one
	}
	one := &running{done: make(chan struct{})}
	h.running[name] = one
	go func() {
		returned := false
		defer func() {
			if !returned {
				one.result = panicked(recover(), debug.Stack())
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.running, name)
			close(one.done)
		}()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		one.result = outcomeOf(check(ctx))
		returned = true
	}()
	return one
}

// panicked returns the outcome of a check that panicked. Its error contains only the type of
// the value or the text of a runtime error, because these contain no data.
func panicked(value any, stack []byte) outcome {
	text := fmt.Sprintf("with a value of type %T", value)
	if err, ok := value.(runtime.Error); ok {
		text = err.Error()
	} else if value == nil {
		text = "its goroutine was ended by runtime.Goexit"
	}
	return outcome{status: StatusFailing, err: errors.New("health: check panicked: " + text), stack: string(stack)}
}

// outcomeOf encodes the details of a result.
func outcomeOf(r Result) outcome {
	o := outcome{status: r.Status, err: r.Err}
	if o.status != StatusOK && o.status != StatusDegraded {
		o.status = StatusFailing
	}
	if len(r.Details) > 0 {
		var err error
		o.details, err = json.Marshal(r.Details)
		o.omitted = err != nil
	}
	return o
}

// note logs a changed status, and once each problem of the check itself.
func (h *Handler) note(ctx context.Context, name string, o outcome) {
	h.mu.Lock()
	before, known := h.last[name]
	h.mu.Unlock()
	if o.omitted && !before.omitted {
		h.config.Logger.LogAttrs(ctx, slog.LevelWarn, "health check details omitted: cannot be encoded as JSON", slog.String("check", name))
	}
	panics := o.stack != "" && before.stack == ""
	if before.status == o.status && !panics || !known && o.status == StatusOK {
		return
	}
	level, attrs := slog.LevelWarn, []slog.Attr{slog.String("check", name), slog.String("status", string(o.status))}
	if o.status == StatusOK {
		level = slog.LevelInfo
	}
	if o.err != nil {
		attrs = append(attrs, slog.String("reason", o.err.Error()))
	}
	if panics {
		level, attrs = slog.LevelError, append(attrs, slog.String("stack", o.stack))
	}
	h.config.Logger.LogAttrs(ctx, level, "health check status changed", attrs...)
}
