package console

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	pause        = 200 * time.Millisecond // shortest time between two messages
	tick         = time.Second            // time between two messages of a running clock
	writeTimeout = 10 * time.Second       // longest time for a browser to read a message
)

// live sends server-sent events to a page if the platform has changed. The data of a message
// is the platform's time, and the page then reloads its contents. The event name is "change",
// or "tick" if only time has passed.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		http.Error(w, "console: the request comes from another site", http.StatusForbidden)
		return
	}
	next, open := h.fake.Changes()
	if !open {
		w.WriteHeader(http.StatusNoContent) // the browser does not reconnect after 204
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for name := "change"; open && h.sendEvent(w, name) == nil; { // first send changes since the page was rendered
		if !sleep(r.Context(), pause) {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-next:
			name = "change"
			next, open = h.fake.Changes()
		case <-h.tick():
			name = "tick"
		}
	}
}

func (h *Handler) sendEvent(w http.ResponseWriter, name string) error {
	stream := http.NewResponseController(w)
	_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout)) // writers without deadlines are not slow
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, h.fake.Clock.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	return stream.Flush()
}

// tick returns a channel that fires after one second, or nil if the clock is frozen.
func (h *Handler) tick() <-chan time.Time {
	if h.fake.Clock.Frozen() {
		return nil
	}
	return time.After(tick)
}

// sleep waits for d. It returns false if ctx is canceled first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
