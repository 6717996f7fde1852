package riverinbox

import (
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// apart is the goroutine that accepts what could not be accepted together. It
// finds out which events that is due to, and stores the others. An event whose key
// is in a transaction of somebody else is tried again until that ends, or its
// caller leaves; nobody waits for it but its caller.
type apart struct {
	writer *writer

	mu    sync.Mutex
	taken []*write

	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}
}

func newApart(w *writer) *apart {
	a := &apart{writer: w, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
	go a.run()
	return a
}

// take takes over a batch. It does not wait.
func (a *apart) take(batch []*write) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = append(a.taken, batch...)
	select {
	case a.wake <- struct{}{}:
	default: // it has been told
	}
}

// close ends it. What has been taken is tried once, and not waited for.
func (a *apart) close() {
	close(a.stop)
	<-a.stopped
}

func (a *apart) run() {
	defer close(a.stopped)
	var waiting []*write // for the end of somebody's transaction, the next one first
	for {
		if fresh := a.fresh(); len(fresh) > 0 {
			waiting = append(waiting, a.divide(fresh)...)
			continue
		}
		select {
		case <-a.stop:
			answer(waiting, webhook.ErrInboxClosed)
			return
		default:
		}
		if len(waiting) == 0 {
			select {
			case <-a.wake:
			case <-a.stop:
			}
			continue
		}
		again := a.attempt(waiting[:1:1], lockPatience)
		waiting = append(waiting[1:], again...)
	}
}

// fresh returns what has been taken since it was last asked.
func (a *apart) fresh() []*write {
	a.mu.Lock()
	defer a.mu.Unlock()
	fresh := a.taken
	a.taken = nil
	return fresh
}

// divide stores what can be stored, in as large parts as it can be, and returns
// what waits for somebody. To find that out it waits for nobody.
func (a *apart) divide(batch []*write) (waiting []*write) {
	for len(batch) > maxBatch {
		waiting = append(waiting, a.attempt(batch[:maxBatch:maxBatch], time.Millisecond)...)
		batch = batch[maxBatch:]
	}
	return append(waiting, a.attempt(batch, time.Millisecond)...)
}

func (a *apart) attempt(batch []*write, patience time.Duration) (waiting []*write) {
	live := present(batch)
	err := a.writer.transact(live, patience)
	switch {
	case !divisible(live, err):
		answer(live, err)
	case len(live) == 1:
		return live
	default:
		half := len(live) / 2
		return append(a.attempt(live[:half:half], patience), a.attempt(live[half:], patience)...)
	}
	return nil
}
