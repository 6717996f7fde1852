package watermillinbox

import (
	"sync"
	"time"
)

// queue holds the lines that this process has to look after itself: those that
// are due again, and those of which the broker said nothing. Each is in it once.
type queue struct {
	ready chan struct{} // holds a token while lines wait

	mu      sync.Mutex
	waiting []string
	known   map[string]bool
	later   map[string]alarmClock
	stopped bool
}

type alarmClock struct {
	at    time.Time
	timer *time.Timer
}

func newQueue() *queue {
	return &queue{ready: make(chan struct{}, 1), known: map[string]bool{}, later: map[string]alarmClock{}}
}

// add has a line worked on as soon as a worker is free.
func (q *queue) add(line string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.known[line] {
		return
	}
	q.known[line] = true
	q.waiting = append(q.waiting, line)
	q.tell()
}

// addIn is add after a wait, or after the one that is planned already if that is
// shorter.
func (q *queue) addIn(line string, wait time.Duration) {
	at := time.Now().Add(wait)
	q.mu.Lock()
	defer q.mu.Unlock()
	planned, ok := q.later[line]
	if q.stopped || ok && !at.Before(planned.at) {
		return
	}
	if ok {
		planned.timer.Stop()
	}
	q.later[line] = alarmClock{at: at, timer: time.AfterFunc(wait, func() {
		q.mu.Lock()
		if q.later[line].at.Equal(at) {
			delete(q.later, line)
		}
		q.mu.Unlock()
		q.add(line)
	})}
}

// next returns a line, after ready had a token.
func (q *queue) next() (line string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return "", false
	}
	line, q.waiting = q.waiting[0], q.waiting[1:]
	delete(q.known, line)
	if len(q.waiting) > 0 {
		q.tell()
	}
	return line, true
}

// plans reports a line that is in the queue, or will be.
func (q *queue) plans(line string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, later := q.later[line]
	return later || q.known[line]
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// tell lets one worker know; q.mu is held.
func (q *queue) tell() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// stop ends all waits.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	for _, planned := range q.later {
		planned.timer.Stop()
	}
}
