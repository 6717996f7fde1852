package sqlinbox

import (
	"runtime"
	"time"
)

// gather makes the next batch, with first in it: everything that waits, and of
// accepts what the pace allows.
func (w *writer) gather(first *write) []*write {
	batch := make([]*write, 0, 16)
	if !first.accept {
		batch, first = w.add(batch, first), nil
	}
	batch = w.gatherWrites(batch)
	return w.gatherAccepts(batch, first)
}

func (w *writer) add(batch []*write, job *write) []*write {
	if job.outcome {
		w.pace.cameBack(job.took)
	}
	return append(batch, job)
}

// gatherWrites takes what waits already, and what comes while that is worth
// waiting for.
func (w *writer) gatherWrites(batch []*write) []*write {
	var over <-chan time.Time
	for len(batch) < maxBatch {
		select {
		case next := <-w.writes:
			batch = w.add(batch, next)
			continue
		default:
		}
		if over == nil {
			patience := w.pace.patience()
			if patience == 0 {
				return batch
			}
			timer := time.NewTimer(patience)
			defer timer.Stop()
			over = timer.C
		}
		if w.pace.expected == 0 {
			return batch
		}
		select {
		case next := <-w.writes:
			batch = w.add(batch, next)
		case <-over:
			w.pace.expected = 0 // they take longer than others
			return batch
		case <-w.stop:
			return batch
		}
	}
	return batch
}

// gatherAccepts takes what waits already, and what those who can run now are about
// to ask for: it lets them go first, as long as that brings anything. It waits for
// nothing else: while one transaction is synced, the next one fills up.
func (w *writer) gatherAccepts(batch []*write, first *write) []*write {
	if first == nil {
		select {
		case first = <-w.accepts:
		default:
			return batch
		}
	}
	outcomes := 0
	for _, job := range batch {
		if job.outcome {
			outcomes++
		}
	}
	batch = append(batch, first)
	left, bytes := w.pace.limit(outcomes, time.Since(first.since))-1, 0
	for before := 0; left > 0 && len(batch) < maxBatch && bytes < maxBytes; {
		select {
		case next := <-w.accepts:
			batch = append(batch, next)
			left, bytes = left-1, bytes+next.bytes
		default:
			if len(batch) == before {
				return batch
			}
			before = len(batch)
			runtime.Gosched()
		}
	}
	return batch
}
