package riverinbox

import (
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// isolation is the goroutine that accepts what could not be accepted together. It
// finds out which events are the reason, and stores the others. An event whose key
// is in another transaction is tried again until that ends, or its caller gives up;
// only its caller waits for it.
type isolation struct {
	writer *writer

	mu    sync.Mutex
	taken []*write

	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}
}

func newIsolation(w *writer) *isolation {
	i := &isolation{writer: w, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
	go i.run()
	return i
}

// isolatedBatch is how many accepts are stored at a time.
const isolatedBatch = 256

// take takes over a batch. It does not wait.
func (i *isolation) take(batch []*write) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taken = append(i.taken, batch...)
	select {
	case i.wake <- struct{}{}:
	default: // it is awake already
	}
}

// close ends it. What has been taken is tried once, and not waited for.
func (i *isolation) close() {
	close(i.stop)
	<-i.stopped
}

func (i *isolation) run() {
	defer close(i.stopped)
	var waiting []*write // for the end of another transaction, the next one first
	for {
		if fresh := i.fresh(); len(fresh) > 0 {
			waiting = append(waiting, i.divide(fresh)...)
			continue
		}
		select {
		case <-i.stop:
			answer(waiting, webhook.ErrInboxClosed)
			return
		default:
		}
		if len(waiting) == 0 {
			select {
			case <-i.wake:
			case <-i.stop:
			}
			continue
		}
		again := i.attempt(waiting[:1:1], lockPatience)
		waiting = append(waiting[1:], again...)
	}
}

// fresh returns what has been taken since it was last asked.
func (i *isolation) fresh() []*write {
	i.mu.Lock()
	defer i.mu.Unlock()
	fresh := i.taken
	i.taken = nil
	return fresh
}

// divide stores what can be stored, in as large parts as it can be, and returns
// what waits for another transaction. To find that out it does not wait itself.
func (i *isolation) divide(batch []*write) (waiting []*write) {
	for len(batch) > isolatedBatch {
		waiting = append(waiting, i.attempt(batch[:isolatedBatch:isolatedBatch], time.Millisecond)...)
		batch = batch[isolatedBatch:]
	}
	return append(waiting, i.attempt(batch, time.Millisecond)...)
}

func (i *isolation) attempt(batch []*write, patience time.Duration) (waiting []*write) {
	live := stillWanted(batch)
	err := i.writer.transact(live, patience)
	switch {
	case !divisible(live, err):
		answer(live, err)
	case len(live) == 1:
		return live
	default:
		half := len(live) / 2
		return append(i.attempt(live[:half:half], patience), i.attempt(live[half:], patience)...)
	}
	return nil
}

// stillWanted leaves out what its caller has given up.
func stillWanted(batch []*write) []*write {
	live := batch[:0]
	for _, job := range batch {
		if err := job.GivenUp(); err != nil {
			job.Done(err)
			continue
		}
		live = append(live, job)
	}
	return live
}
