package dispensaryotel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/baggage"
)

// mishap answers a request in place of the platform; echo is all that was sent.
type mishap func(r *http.Request, echo string) (*http.Response, error)

// mishaps are those that could speak, success first.
var mishaps = []mishap{
	nil,
	answering(http.StatusBadRequest), answering(http.StatusUnauthorized), answering(http.StatusForbidden), answering(http.StatusNotFound),
	answering(http.StatusTooManyRequests), answering(http.StatusInternalServerError), answering(http.StatusOK),
	func(_ *http.Request, echo string) (*http.Response, error) { return nil, errors.New(echo) },
}

// answering repeats all that was sent, in the body and in the reason.
func answering(status int) mishap {
	return func(r *http.Request, echo string) (*http.Response, error) {
		body, _ := json.Marshal(map[string]string{"error": echo})
		return &http.Response{
			StatusCode: status, Status: fmt.Sprint(status, " ", echo), ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req-7"}}, Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	}
}

// wire is a transport that remembers the words of requests and answers, and makes
// mishaps.
type wire struct {
	t      testing.TB
	base   http.RoundTripper
	mishap mishap
	words  map[string]bool
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	assert.Zero(w.t, baggage.FromContext(r.Context()).Len(), "baggage")
	assert.Empty(w.t, r.Header.Get("Traceparent"))
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	w.remember(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if strings.Count(part, "-") == 4 { // an id
			w.remember(part)
		}
	}
	for _, values := range r.URL.Query() {
		for _, value := range values {
			w.remember(value)
		}
	}
	w.listen(body)
	if w.mishap != nil {
		return w.mishap(r, strings.Join([]string{r.URL.String(), r.Header.Get("Authorization"), string(body)}, " "))
	}
	response, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(answer))
	w.listen(answer)
	return response, err
}

// listen remembers the texts of a body.
func (w *wire) listen(body []byte) {
	var tree any
	if json.Unmarshal(body, &tree) == nil {
		w.walk(tree)
	}
}

func (w *wire) walk(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			w.walk(inner)
		}
	case []any:
		for _, inner := range value {
			w.walk(inner)
		}
	case string:
		w.remember(value)
	}
}

// vocabulary are words that operations, events and this module use as well.
var vocabulary = map[string]bool{
	"patient": true, "practitioner": true, "product": true, "staff": true, "order": true, "active": true, "draft": true,
	"available": true, "patient.created": true,
}

// shortest is what a word needs to be found by no accident.
const shortest = 5

func (w *wire) remember(word string) {
	if len(word) >= shortest && !vocabulary[strings.ToLower(word)] {
		w.words[word] = true
	}
}

// lockedBuffer is a buffer that loggers may share.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// logger writes everything, but no time: dates are among the words that are
// looked for.
func (b *lockedBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
