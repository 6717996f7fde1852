package dispensaryotel

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/webhook"
)

// maxLinks bounds what is remembered of accepted events: about 2 MB.
const maxLinks = 8192

// links remembers the spans in which events were accepted, so that their attempts
// can be linked to them. The oldest are forgotten first.
type links struct {
	mu    sync.Mutex
	known map[webhook.Key]link
	ring  []webhook.Key
	next  int // the oldest in a full ring
}

type link struct {
	span trace.SpanContext
	slot int // in the ring
}

// remember notes the span of an event. That of a repeated delivery does not
// replace the first.
func (l *links) remember(key webhook.Key, span trace.SpanContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, before := l.known[key]; before {
		return
	}
	if l.known == nil {
		l.known = map[webhook.Key]link{}
	}
	slot := len(l.ring)
	if slot < maxLinks {
		l.ring = append(l.ring, key)
	} else {
		slot = l.next
		l.next = (l.next + 1) % maxLinks
		if oldest := l.ring[slot]; l.known[oldest].slot == slot { // or it was forgotten, and came again
			delete(l.known, oldest)
		}
		l.ring[slot] = key
	}
	l.known[key] = link{span, slot}
}

// forget drops the span of an event that was not accepted in it after all.
func (l *links) forget(key webhook.Key, span trace.SpanContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[key].span.Equal(span) {
		delete(l.known, key)
	}
}

// of returns the span of an event; an invalid one if it is not known.
func (l *links) of(key webhook.Key) trace.SpanContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[key].span
}
