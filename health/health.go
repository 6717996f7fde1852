// Package health answers the questions of balancers, orchestrators and monitors:
//
//	handler, err := health.New(health.Config{Checks: health.Checks{
//		"store":   health.Store(store, environment),
//		"inbox":   health.Inbox(inbox, 15*time.Minute),
//		"alarm":   health.Alarm(alarm),
//		"breaker": health.Breaker(conns),
//	}})
//	mux.Handle("GET /healthz", handler)
//	mux.Handle("GET /readyz", handler)
//
// /healthz says that the process lives, and asks nothing else: no restart brings back a
// database. /readyz says whether it should be sent requests, and what each check found,
// in numbers and times only: no name of a user, no id, no error's text, which goes to
// the log.
//
// # Failing and degraded
//
// A check that fails makes the answer 503, and the balancer sends requests elsewhere.
// That is right for a store that cannot be reached, and wrong for what is no better
// elsewhere: while one event is retried for hours, while webhooks are refused, and while
// the platform refuses tokens, all replicas would leave the balancer, and nothing would
// work at all. Such a check is degraded: the answer says so, and is 200. A monitor, which
// has to wake people, asks for /readyz?strict, which is 503 for both.
package health

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// DefaultTimeout is how long checks may take. Balancers are rarely more patient.
const DefaultTimeout = 2 * time.Second

// Status is how one check, or all of them, came out.
type Status string

// The statuses. A program that is degraded is ready: see the package comment.
const (
	OK       Status = "ok"
	Degraded Status = "degraded" // it works, and needs attention
	Failing  Status = "failing"  // it should not be sent requests
)

// Check looks at one part of the program. It has to return when its context ends, and
// is never run twice at the same time.
type Check func(context.Context) Result

// Checks are checks by the names that the answer has for them.
type Checks map[string]Check

// Result is what a [Check] found.
type Result struct {
	// Status is [OK], [Degraded] or [Failing].
	Status Status

	// Details are shown to all who ask: numbers, times, fixed words.
	Details map[string]any

	// Err is the reason for a status other than OK. It is logged when the status
	// changes, and never shown.
	Err error
}

// Config is what a [Handler] is made of. Checks are required.
type Config struct {
	// Checks are run at the same time, at each request for /readyz.
	Checks Checks

	// Timeout is how long they may take; 0 means [DefaultTimeout]. A check that
	// takes longer is failing.
	Timeout time.Duration

	// Logger receives a record whenever the status of a check changes. Nil logs
	// nothing.
	Logger *slog.Logger
}

// Handler answers requests whose path ends in healthz or readyz, with 200 or 503 and an
// object in JSON:
//
//	{"status":"degraded","checks":{"inbox":{"status":"degraded","details":{"waiting":3}}}}
//
// It is safe for concurrent use. Requests that come while a check runs share it, so
// that asking often does not load the database.
type Handler struct {
	config Config

	mu      sync.Mutex
	running map[string]*running
	last    map[string]Status
}

// running is a check under way.
type running struct {
	done   chan struct{}
	result Result
}

// New returns a handler. An error is an [*api.ArgumentError].
func New(c Config) (*Handler, error) {
	if len(c.Checks) == 0 {
		return nil, &api.ArgumentError{Field: "health.Config.Checks", Reason: "is empty"}
	}
	for name, check := range c.Checks {
		if name == "" || check == nil {
			return nil, &api.ArgumentError{Field: "health.Config.Checks", Reason: fmt.Sprintf("holds %q, which has no name or is nil", name)}
		}
	}
	if c.Timeout < 0 {
		return nil, &api.ArgumentError{Field: "health.Config.Timeout", Reason: "is negative"}
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{config: c, running: map[string]*running{}, last: map[string]Status{}}, nil
}

// Format prints the type only.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "health.Handler") }

// answer is what is written.
type answer struct {
	Status Status                 `json:"status"`
	Checks map[string]checkAnswer `json:"checks,omitempty"`
}

type checkAnswer struct {
	Status  Status         `json:"status"`
	Details map[string]any `json:"details,omitempty"`
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a answer
	switch last := path.Base(r.URL.Path); {
	case last != "healthz" && last != "readyz":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	case last == "healthz":
		a = answer{Status: OK}
	default:
		a = h.ready(r.Context())
	}
	status := http.StatusOK
	if a.Status == Failing || a.Status == Degraded && r.URL.Query().Has("strict") {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // fails only when the caller went away
}

// ready runs all checks.
func (h *Handler) ready(ctx context.Context) answer {
	// Who asked may leave; what is found is found all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.config.Timeout)
	defer cancel()
	under := map[string]*running{}
	for name, check := range h.config.Checks {
		under[name] = h.start(name, check)
	}
	a := answer{Status: OK, Checks: map[string]checkAnswer{}}
	for name, one := range under {
		result := one.wait(ctx)
		if result.Status == Failing || a.Status == OK {
			a.Status = result.Status
		}
		a.Checks[name] = checkAnswer{result.Status, result.Details}
		h.note(ctx, name, result)
	}
	return a
}

// wait returns what the check has found, if it has by the end of ctx. A check that is
// done counts also where another one took all the time.
func (r *running) wait(ctx context.Context) Result {
	select {
	case <-r.done:
	case <-ctx.Done():
		select {
		case <-r.done:
		default:
			return Result{Status: Failing, Err: errors.New("health: the check takes too long")}
		}
	}
	return r.result
}

// start runs a check, or finds it under way.
func (h *Handler) start(name string, check Check) *running {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.running[name]; one != nil {
		return one
	}
	one := &running{done: make(chan struct{}), result: Result{Status: Failing, Err: errors.New("health: the check panicked")}}
	h.running[name] = one
	go func() {
		defer func() { // also after a panic
			_ = recover()
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.running, name)
			close(one.done)
		}()
		// Not the context of a request: others may wait for the same check.
		ctx, cancel := context.WithTimeout(context.Background(), h.config.Timeout)
		defer cancel()
		result := check(ctx)
		if result.Status != OK && result.Status != Degraded {
			result.Status = Failing
		}
		one.result = result
	}()
	return one
}

// note logs a check whose status has changed.
func (h *Handler) note(ctx context.Context, name string, result Result) {
	h.mu.Lock()
	before, known := h.last[name]
	h.last[name] = result.Status
	h.mu.Unlock()
	if before == result.Status || !known && result.Status == OK {
		return
	}
	level, attrs := slog.LevelWarn, []slog.Attr{slog.String("check", name), slog.String("status", string(result.Status))}
	if result.Status == OK {
		level = slog.LevelInfo
	}
	if result.Err != nil {
		attrs = append(attrs, slog.String("reason", result.Err.Error()))
	}
	h.config.Logger.LogAttrs(ctx, level, "health of a part changed", attrs...)
}
