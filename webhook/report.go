package webhook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// reporter logs and observes requests.
type reporter struct {
	logger   *slog.Logger // never nil
	observer Observer
}

// start returns the request with the context from RequestStart.
func (p reporter) start(r *http.Request) *http.Request {
	start := p.observer.RequestStart
	if start == nil {
		return r
	}
	return r.WithContext(safecall.Begin(r.Context(), p.logger, func() context.Context { return start(r.Context(), r) }))
}

// endPatience is how long a connection waits for RequestEnd, so that the shutdown of a
// server usually waits for it, too.
const endPatience = 100 * time.Millisecond

// detached limits the number of RequestEnd calls in the background, for the process.
var detached = make(chan struct{}, 256)

// end logs and reports a request whose response has been sent. net/http takes no further
// request from a connection until the handler returns. So a slow RequestEnd continues in
// the background. Without an http.Server, as in a test or in a function of a cloud, end
// waits for RequestEnd.
func (p reporter) end(r *http.Request, o Observation) {
	ctx := context.WithoutCancel(r.Context())
	if ctx.Value(http.ServerContextKey) == nil {
		p.report(ctx, o)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.report(ctx, o)
	}()
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-done:
		return
	case <-patience.C:
	}
	select {
	case <-done:
	case detached <- struct{}{}:
		go func() {
			<-done
			<-detached
		}()
	}
}

func (p reporter) report(ctx context.Context, o Observation) {
	if level := o.level(); p.logger.Enabled(ctx, level) {
		p.logger.LogAttrs(ctx, level, "webhook "+string(o.Outcome), o.attrs()...)
	}
	if end := p.observer.RequestEnd; end != nil {
		safecall.Observe(ctx, p.logger, func() { end(ctx, o) })
	}
}

// respond sends the response. A rejected caller does not learn the reason. The response
// has a length and is flushed, so it is complete for the caller before the handler
// returns.
func respond(w http.ResponseWriter, o Observation, answer api.Secret) {
	header, text := w.Header(), answer.Reveal()
	header.Set("Content-Type", "application/json")
	if o.Status != http.StatusOK {
		text = http.StatusText(o.Status) + "\n"
		header.Set("Content-Type", "text/plain; charset=utf-8")
		header.Set("X-Content-Type-Options", "nosniff")
	}
	if o.Status == http.StatusMethodNotAllowed {
		header.Set("Allow", http.MethodPost)
	}
	header.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(o.Status)
	_, _ = io.WriteString(w, text)            // a caller who is gone sends the event again
	_ = http.NewResponseController(w).Flush() // a writer that cannot flush sends it later
}

// NotFoundHandler returns a handler for paths without a [Handler]. It responds with
// 404, and reports the request to logger and observer. Its error matches [ErrUnknownPath],
// and [ErrMethod], [ErrSignatureMissing] or [ErrSignatureMalformed] if the request cannot
// be the platform's. An [Alarm] needs these requests: after a path was renamed, the
// platform still sends its events to the old path. A nil logger logs nothing.
func NotFoundHandler(logger *slog.Logger, observer Observer) http.Handler {
	p := reporter{safecall.Logger(logger), observer}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		r = p.start(r)
		limitBody(w, r, DefaultBodyTimeout)
		o := refused(http.StatusNotFound, unknownPath(r))
		respond(w, o, api.Secret{})
		o.Duration = time.Since(start)
		p.end(r, o)
	})
}

func unknownPath(r *http.Request) error {
	if r.Method != http.MethodPost {
		return fmt.Errorf("%w: %w", ErrUnknownPath, ErrMethod)
	}
	var s signature
	if err := s.parseHeader(r.Header); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknownPath, err)
	}
	return ErrUnknownPath
}
