package ratelimit

import (
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// start is a request that was let through.
type start struct {
	at       time.Duration // on the limiter's clock
	priority api.Priority
}

// window holds the starts of the last period, the oldest first, in a ring.
type window struct {
	per  time.Duration
	ring []start
	head int // the oldest
	n    int

	interactive int // how many of them are for people
}

// add records a start.
func (w *window) add(s start) {
	if w.n == len(w.ring) {
		larger := make([]start, max(16, 2*len(w.ring)))
		copied := copy(larger, w.ring[w.head:])
		copy(larger[copied:], w.ring[:w.head])
		w.ring, w.head = larger, 0
	}
	w.ring[w.index(w.n)] = s
	w.n++
	if s.priority == api.PriorityInteractive {
		w.interactive++
	}
}

// index is where the start number i is, the oldest being 0.
func (w *window) index(i int) int {
	if i += w.head; i >= len(w.ring) {
		i -= len(w.ring)
	}
	return i
}

func (w *window) at(i int) start { return w.ring[w.index(i)] }

// forget drops what began a period ago or earlier.
func (w *window) forget(now time.Duration) {
	for w.n > 0 && w.at(0).at+w.per <= now {
		if w.at(0).priority == api.PriorityInteractive {
			w.interactive--
		}
		w.head = w.index(1)
		w.n--
	}
}

// never is later than all times.
const never = time.Duration(1<<63 - 1)

// free returns when one more request may start, after ahead others, where any period holds at
// most quota of them. It is in the past, or now, if one may start at once.
func (w *window) free(quota, ahead int, now time.Duration) time.Duration {
	if quota < 1 {
		return never
	}
	// The one that is quota requests later starts a period later.
	periods := time.Duration(ahead / quota)
	at := w.n - quota + ahead%quota
	if at < 0 {
		return now + periods*w.per
	}
	return w.at(at).at + (1+periods)*w.per
}

// spread returns how far apart background starts have to be now, so that what is left of the
// quota lasts until more is free, with what people are likely to take meanwhile. Otherwise a
// window that fills faster than it began would be full for a while, and nothing would start.
func (w *window) spread(quota int, now time.Duration) time.Duration {
	if w.n == 0 {
		return 0
	}
	until, age := w.at(0).at+w.per-now, max(now-w.at(0).at, w.per/10)
	people := int(int64(w.interactive)*int64(until)/int64(age))*3/2 + min(2, w.interactive)
	return until / time.Duration(max(1, quota-w.n+1-people))
}
