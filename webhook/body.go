package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// isEmpty reports whether the body of a request has no bytes.
func isEmpty(r *http.Request) bool {
	if r.ContentLength > 0 {
		return false
	}
	if r.Body == nil {
		return true
	}
	n, err := io.ReadFull(r.Body, make([]byte, 1))
	return n == 0 && err == io.EOF
}

// limitBody limits the time for the caller to send the body. The limit also applies if the handler
// does not read the body, because net/http reads the rest of it before and after it sends the
// response. The server removes the limit before the next request.
func limitBody(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if limitsBody(r, limit) {
		setReadDeadline(w, time.Now().Add(limit))
	}
}

// unlimitBody removes the limit after the whole body was read. From then on net/http reads
// in the background, and a deadline would end the context of the connection.
func unlimitBody(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if limitsBody(r, limit) {
		setReadDeadline(w, time.Time{})
	}
}

// setReadDeadline does nothing for a writer without deadlines.
func setReadDeadline(w http.ResponseWriter, at time.Time) {
	eachWriter(w, func(w http.ResponseWriter) bool {
		limited, ok := w.(interface{ SetReadDeadline(time.Time) error })
		if ok {
			_ = limited.SetReadDeadline(at)
		}
		return ok
	})
}

// limitsBody reports whether r has a body and its server has no shorter limit.
func limitsBody(r *http.Request, limit time.Duration) bool {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return r.ContentLength != 0 && (server == nil || server.ReadTimeout <= 0 || server.ReadTimeout > limit)
}

// trustedLength is the largest buffer for an announced body in bytes. The caller is not verified
// yet, so the buffer grows beyond it only as bytes arrive.
const trustedLength = 64 << 10

// readBody reads the raw body of a request into new memory.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	source := http.MaxBytesReader(w, r.Body, limit)
	// One byte more than announced, so that Read reaches the end before the buffer is full.
	body := make([]byte, 0, 1+max(511, min(r.ContentLength, trustedLength)))
	for {
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return body, bodyError(err)
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, len(body))
		}
	}
}

func bodyError(err error) error {
	switch {
	case err == io.EOF:
		return nil
	case errors.As(err, new(*http.MaxBytesError)):
		return ErrBodyTooLarge
	case errors.Is(err, http.ErrBodyReadAfterClose):
		return ErrBodyConsumed
	}
	return ErrBodyUnreadable // the cause contains only network addresses
}

func statusOfBody(err error) int {
	switch err {
	case ErrBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case ErrBodyConsumed:
		return http.StatusUnauthorized
	}
	return http.StatusBadRequest
}

// explainMismatch returns [ErrBodyConsumed] if a middleware has read or changed the body, and
// otherwise err.
func explainMismatch(r *http.Request, read int, err error) error {
	announced := r.ContentLength
	switch {
	case announced >= 0 && announced != int64(read):
		return fmt.Errorf("%w: %d bytes announced, %d found", ErrBodyConsumed, announced, read)
	case announced < 0 && read == 0:
		return fmt.Errorf("%w: no bytes are left", ErrBodyConsumed)
	}
	return err
}

// endPatience is the longest wait of a connection for RequestEnd. Because of this wait, the
// shutdown of a server usually waits for RequestEnd too.
const endPatience = 100 * time.Millisecond

// detached limits the number of RequestEnd calls in the background, for the process.
var detached = make(chan struct{}, 256)

// report logs and observes a request after its response was sent. ctx has the values of the request
// but does not end with it. net/http reads no further
// request from a connection until the handler returns, so a slow RequestEnd continues in the
// background. Without an http.Server, as in a test or in a cloud function, report waits for
// RequestEnd.
func report(ctx context.Context, o Observation, logger *slog.Logger, observer Observer) {
	level := o.level()
	end := func() {
		if logger.Enabled(ctx, level) {
			logger.LogAttrs(ctx, level, "webhook "+string(o.Outcome), o.attrs()...)
		}
		observer.RequestEnd(ctx, o)
	}
	if ctx.Value(http.ServerContextKey) == nil {
		end()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		end()
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

// respond sends the response. A rejected caller does not learn the reason. The response
// has a length and is flushed, so it is complete for the caller before the handler
// returns.
func respond(w http.ResponseWriter, o Observation, response api.Secret) {
	header, text := w.Header(), response.Reveal()
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
	_, _ = io.WriteString(w, text) // if the caller is gone, the platform sends the event again
	flush(w)
}

// flush sends the response. A writer without Flush sends it later.
func flush(w http.ResponseWriter) {
	eachWriter(w, func(w http.ResponseWriter) bool {
		switch w := w.(type) {
		case interface{ FlushError() error }:
			_ = w.FlushError()
		case http.Flusher:
			w.Flush()
		default:
			return false
		}
		return true
	})
}

// eachWriter calls try for w and the writers that it wraps, until try returns true.
// [http.ResponseController] does the same, but creates an error if no writer has the method. For
// three calls per request that takes a tenth of the time of the handler.
func eachWriter(w http.ResponseWriter, try func(http.ResponseWriter) bool) {
	for !try(w) {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = wrapper.Unwrap()
	}
}

// NotFoundHandler returns a handler for paths without a [Handler]. It responds with 404 and
// reports the request to logger and observer. Its error matches [ErrUnknownPath]. If the request
// cannot be from the platform, it also matches [ErrMethod], [ErrSignatureMissing] or
// [ErrSignatureMalformed]. An [Alarm] needs these requests: if you rename a path, the platform
// still sends its events to the old path. A nil logger disables logging.
func NotFoundHandler(logger *slog.Logger, observer Observer) http.Handler {
	logger = safecall.Logger(logger)
	observer = observer.safe(logger)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		if observer.RequestStart != nil {
			r = r.WithContext(observer.RequestStart(r.Context(), r))
		}
		limitBody(w, r, defaultBodyTimeout)
		o := rejected(http.StatusNotFound, unknownPath(r))
		respond(w, o, api.Secret{})
		o.Duration = time.Since(start)
		report(context.WithoutCancel(r.Context()), o, logger, observer)
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
