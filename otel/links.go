package dispensaryotel

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/webhook"
)

// maxLinks is the smallest number of accepted events whose spans are remembered. Up to twice as
// many are, in about 2 MB.
const maxLinks = 4096

// links remembers the spans in which events were accepted, so that their attempts
// can be linked to them. It forgets the older ones together.
type links struct {
	mu           sync.Mutex
	young, older map[webhook.Key]trace.SpanContext // disjoint, up to maxLinks each
}

// remember stores the span of an event. The span of a repeated delivery does not
// replace the first.
func (l *links) remember(key webhook.Key, span trace.SpanContext) {
	if l.of(key).IsValid() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.young == nil || len(l.young) == maxLinks {
		l.young, l.older = map[webhook.Key]trace.SpanContext{}, l.young
	}
	l.young[key] = span
}

// forget drops the span of an event that was not accepted in it after all.
func (l *links) forget(key webhook.Key, span trace.SpanContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range []map[webhook.Key]trace.SpanContext{l.young, l.older} {
		if known[key].Equal(span) {
			delete(known, key)
		}
	}
}

// of returns the span of an event, or an invalid one if it is not known.
func (l *links) of(key webhook.Key) trace.SpanContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	if span, known := l.young[key]; known {
		return span
	}
	return l.older[key]
}
