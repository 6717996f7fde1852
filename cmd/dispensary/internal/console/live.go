package console

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	pause        = 200 * time.Millisecond // at least, between two messages
	tick         = time.Second            // how often a page is sent the time of a running clock
	writeTimeout = 10 * time.Second       // how long a browser may take to read a message
)

// live sends a page server-sent events when the platform has changed. A
// message holds the platform's time and nothing else: what a page shows, it fetches
// as it did before. Its name is "change", or "tick" where only time has passed.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		http.Error(w, "console: this request was sent from another site", http.StatusForbidden)
		return
	}
	next, open := h.fake.Changes()
	if !open {
		w.WriteHeader(http.StatusNoContent) // a browser does not ask again
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for name := "change"; open && h.sendEvent(w, name) == nil; { // whatever has changed since the page was made
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

// sendEvent sends one message.
func (h *Handler) sendEvent(w http.ResponseWriter, name string) error {
	stream := http.NewResponseController(w)
	_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer that cannot is not slow either
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, h.fake.Clock.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	return stream.Flush()
}

// tick is nil, and never comes, while the clock stands still.
func (h *Handler) tick() <-chan time.Time {
	if h.fake.Clock.Frozen() {
		return nil
	}
	return time.After(tick)
}

// sleep returns false when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
