// Package health serves health checks to load balancers, orchestrators and monitors.
//
//	handler, err := health.New(health.Config{Checks: map[string]health.Check{
//		"store":   health.Store(store),
//		"inbox":   health.Inbox(inbox, 15*time.Minute),
//		"alarm":   health.Alarm(alarm),
//		"refresh": health.TokenRefresh(conns),
//	}})
//	mux.Handle("GET /healthz", handler)
//	mux.Handle("GET /readyz", handler)
//	go handler.Run(ctx)
//
// /healthz responds with 200 while the process runs. It runs no checks, because a restart does
// not repair a database. /readyz reports whether the process should receive requests, and the
// last result of each check.
//
// # Usage
//
// [Handler.Run] runs the checks in the background every 5 seconds. A request returns the last
// results without any query, so frequent requests are cheap. /readyz fails until the first
// results exist. It also fails if the results are older than three intervals, because the loop
// has ended or hangs. Call [Handler.Drain] before a shutdown to make it fail at once.
//
// # Failing and degraded
//
// If a check is failing, /readyz responds with 503, and a load balancer sends requests to
// other replicas. Use this for a problem of one process. A problem of all replicas must not
// remove all of them from the load balancer: an event is retried for hours, the platform
// rejects tokens, or webhooks do not arrive. Such a check is degraded. /readyz reports it but
// responds with 200. For alerts, let a monitor request /readyz?strict, which responds with 503
// in both cases.
//
// Only the following make /readyz fail:
//
//   - [Handler.Drain] was called, or there are no recent results.
//   - [Store] or [Inbox] gets an error within 2 seconds: the server is read-only or rejects
//     connections, the disk is full, the file was replaced, or the inbox is closed.
//   - A check panics, does not return within 2.5 seconds, or is your own and fails.
//
// A store that does not respond within 2 seconds is degraded, because all replicas share a slow
// database, and the same load uses all connections of every replica's pool. The check cannot
// distinguish this from a network that drops the packets of one replica.
//
// # Privacy
//
// Responses contain numbers, times and fixed words. They contain no names, IDs or error texts.
// Error texts are only logged.
package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

const (
	// interval is the time between two runs of the checks.
	interval = 5 * time.Second

	// timeout ends the context of a check. A check is failing if it does not return soon after.
	timeout = 2 * time.Second
)

// Status is the result of one check or of all checks.
type Status string

// Statuses of a check. A degraded program is ready, see the package comment.
const (
	StatusOK       Status = "ok"
	StatusDegraded Status = "degraded" // works, but needs attention
	StatusFailing  Status = "failing"  // should not receive requests
)

// Check checks one part of the program. It must return when its context ends. Two calls of the
// same check never overlap.
type Check func(context.Context) Result

// Result is the result of a [Check].
type Result struct {
	// Status is [StatusOK], [StatusDegraded] or [StatusFailing].
	Status Status

	// Details are shown to every caller: numbers, times and fixed words. If they cannot be
	// encoded as JSON, they are omitted, and a warning is logged.
	Details map[string]any

	// Err is the reason for a status other than StatusOK. It is logged when the status changes,
	// and never shown to callers.
	Err error
}

// Config configures a [Handler]. Checks are required.
type Config struct {
	// Checks contains the checks by name. The response contains the names. All checks run at
	// the same time.
	Checks map[string]Check

	// Logger logs changes of a check's status, omitted details, and panics of a check. Nil logs
	// nothing.
	Logger *slog.Logger
}

// Handler serves requests with a path that ends in healthz or readyz. It responds with 200 or
// 503 and a JSON object. age_seconds is the age of the results:
//
//	{"status":"degraded","age_seconds":3,"checks":{"inbox":{"status":"degraded","details":{"waiting":3}}}}
//
// It is safe for concurrent use. Create it with [New].
type Handler struct {
	config Config

	mu       sync.Mutex
	running  map[string]*running
	last     map[string]outcome
	checked  time.Time // start of the last run, zero before the first
	draining bool
}

// New returns a handler without results. If there are no checks, or a check is nil or has no
// name, it returns an [*api.ArgumentError].
func New(c Config) (*Handler, error) {
	if len(c.Checks) == 0 {
		return nil, &api.ArgumentError{Field: "health.Config.Checks", Reason: "is empty"}
	}
	for name, check := range c.Checks {
		if name == "" || check == nil {
			return nil, &api.ArgumentError{Field: "health.Config.Checks", Reason: fmt.Sprintf("contains %q, which has no name or is nil", name)}
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{config: c, running: map[string]*running{}, last: map[string]outcome{}}, nil
}

// Format prints only the type.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "health.Handler") }

// Drain makes /readyz fail from now on, so that load balancers send no more requests. The
// response contains "shutdown" as a failing check.
func (h *Handler) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// response is the body of a response.
type response struct {
	Status Status                   `json:"status"`
	Age    *int                     `json:"age_seconds,omitempty"`
	Checks map[string]checkResponse `json:"checks,omitempty"`
}

type checkResponse struct {
	Status  Status          `json:"status"`
	Details json.RawMessage `json:"details,omitempty"`
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a response
	switch last := path.Base(r.URL.Path); {
	case last != "healthz" && last != "readyz":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	case last == "healthz":
		a = response{Status: StatusOK}
	default:
		a = h.ready(time.Now())
	}
	status := http.StatusOK
	if a.Status == StatusFailing || a.Status == StatusDegraded && r.URL.Query().Has("strict") {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // fails only if the caller has closed the connection
}

// ready returns the last results. They are failing if there are no results or only old ones.
func (h *Handler) ready(now time.Time) response {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := response{Status: StatusOK, Checks: map[string]checkResponse{}}
	worsen := func(status Status) {
		if status == StatusFailing || a.Status == StatusOK {
			a.Status = status
		}
	}
	if h.checked.IsZero() {
		worsen(StatusFailing)
	} else {
		age := now.Sub(h.checked)
		seconds := int(age.Seconds())
		a.Age = &seconds
		if age > stale {
			worsen(StatusFailing)
		}
	}
	for name := range h.config.Checks {
		last, known := h.last[name]
		if !known {
			last.status = StatusFailing
		}
		worsen(last.status)
		a.Checks[name] = checkResponse{last.status, last.details}
	}
	if h.draining {
		worsen(StatusFailing)
		a.Checks["shutdown"] = checkResponse{Status: StatusFailing}
	}
	return a
}

// stale is the maximum age of valid results. Older results mean that the last two runs and the
// next one are overdue.
const stale = 3*interval + timeout

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
