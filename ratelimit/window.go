package ratelimit

import "time"

// window is a ring of the starts in the last period, oldest first. Times are on the owner's
// clock.
type window struct {
	per  time.Duration
	ring []time.Duration
	head int // index of the oldest start
	n    int
}

// add records a start.
func (w *window) add(at time.Duration) {
	if w.n == len(w.ring) {
		larger := make([]time.Duration, max(16, 2*len(w.ring)))
		copied := copy(larger, w.ring[w.head:])
		copy(larger[copied:], w.ring[:w.head])
		w.ring, w.head = larger, 0
	}
	w.n++
	w.ring[w.index(w.n-1)] = at
}

// index returns the position of start i in the ring. Start 0 is the oldest.
func (w *window) index(i int) int {
	if i += w.head; i >= len(w.ring) {
		i -= len(w.ring)
	}
	return i
}

// forget removes starts that are at least one period old.
func (w *window) forget(now time.Duration) {
	for w.n > 0 && w.ring[w.head]+w.per <= now {
		w.head = w.index(1)
		w.n--
	}
}

// free returns the earliest time at which all limits permit one more start after ahead other
// starts. It returns now if they permit the start at once.
func (w *window) free(limits []Window, ahead int, now time.Duration) time.Duration {
	free := now
	for _, limit := range limits {
		at := now
		if i := w.n - limit.Starts + ahead%limit.Starts; i >= 0 {
			at = max(at, w.ring[w.index(i)]+limit.Per)
		}
		// Every limit.Starts requests ahead delay the start by limit.Per.
		free = max(free, at+time.Duration(ahead/limit.Starts)*limit.Per)
	}
	return free
}
