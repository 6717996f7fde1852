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
// /healthz responds with 200 while the process lives. It checks nothing else, because a
// restart does not bring back a database. /readyz reports whether the process should
// receive requests, and the last result of each check.
//
// # Usage
//
// [Handler.Run] runs the checks in the background, every 5 seconds. A request
// renders the last results and queries nothing, however often it is sent. /readyz fails
// until the first results are there, and if they are older than three intervals, because
// the loop has ended or hangs. [Handler.Drain] makes it fail at once, before a shutdown.
//
// # Failing and degraded
//
// A failing check makes /readyz respond with 503, so that a load balancer sends requests to
// other replicas. That is right for a store that accepts no writes, and wrong for a problem
// that all replicas share: if an event is retried for hours, the platform rejects tokens or
// webhooks do not arrive, all replicas would leave the load balancer. Such a check is
// degraded. /readyz reports it and responds with 200. A monitor that alerts people requests
// /readyz?strict, which responds with 503 for both.
//
// # Privacy
//
// Responses contain numbers, times and fixed words. They contain no name or id, and no text
// of an error, which is logged only.
package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

const (
	// interval is the interval of the checks.
	interval = 5 * time.Second

	// timeout ends the context of a check. A check that does not return soon after is failing.
	timeout = 2 * time.Second
)

// Status is the result of one check, or of all of them.
type Status string

// The statuses. A degraded program is ready: see the package comment.
const (
	StatusOK       Status = "ok"
	StatusDegraded Status = "degraded" // it works, and needs attention
	StatusFailing  Status = "failing"  // it should not receive requests
)

// Check examines one part of the program. It must return when its context ends. A check
// never runs twice at the same time.
type Check func(context.Context) Result

// Result is the result of a [Check].
type Result struct {
	// Status is [StatusOK], [StatusDegraded] or [StatusFailing].
	Status Status

	// Details are shown to every caller: numbers, times, fixed words. If they cannot be
	// encoded as JSON, they are left out, which is logged.
	Details map[string]any

	// Err is the reason for a status other than StatusOK. It is logged when the status
	// changes, and never shown.
	Err error
}

// Config configures a [Handler]. Checks are required.
type Config struct {
	// Checks are the checks by their names, which the response contains. They run at the same
	// time.
	Checks map[string]Check

	// Logger receives a record if the status of a check changes, and if a check panics.
	// Nil logs nothing.
	Logger *slog.Logger
}

// Handler serves requests whose path ends in healthz or readyz. It responds with 200 or 503
// and a JSON object, in which age_seconds is the age of the results:
//
//	{"status":"degraded","age_seconds":3,"checks":{"inbox":{"status":"degraded","details":{"waiting":3}}}}
//
// It is safe for concurrent use. Create it with [New].
type Handler struct {
	config Config

	mu       sync.Mutex
	running  map[string]*running
	last     map[string]outcome
	checked  time.Time // when the checks of last began; zero before the first
	draining bool
}

// New returns a handler that has checked nothing yet. An error is an [*api.ArgumentError].
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

// Format prints the type only.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "health.Handler") }

// Drain makes /readyz fail from now on, so that load balancers send no more requests. The
// response shows it as the failing check "shutdown".
func (h *Handler) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// answer is the body of a response.
type answer struct {
	Status Status                 `json:"status"`
	Age    *int                   `json:"age_seconds,omitempty"`
	Checks map[string]checkAnswer `json:"checks,omitempty"`
}

type checkAnswer struct {
	Status  Status          `json:"status"`
	Details json.RawMessage `json:"details,omitempty"`
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
		a = answer{Status: StatusOK}
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
	_ = json.NewEncoder(w).Encode(a) // fails only if the caller has left
}

// ready returns the last results. They are failing if there are none yet, or none that are
// recent.
func (h *Handler) ready(now time.Time) answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := answer{Status: StatusOK, Checks: map[string]checkAnswer{}}
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
		a.Checks[name] = checkAnswer{last.status, last.details}
	}
	if h.draining {
		worsen(StatusFailing)
		a.Checks["shutdown"] = checkAnswer{Status: StatusFailing}
	}
	return a
}

// stale is the age from which results are no longer believed: the last two runs of the
// checks and the next one are overdue.
const stale = 3*interval + timeout
