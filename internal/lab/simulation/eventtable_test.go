package simulation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// eventTable is an inbox table in a database shared by replicas. It replaces the SQL of this
// module's engines. All other parts are those of the engines: the worker, the group commit, the
// encryption and the retries of recording an outcome.
type eventTable struct {
	mu          sync.Mutex
	rows        map[webhook.Key]*row
	accepted    int
	newest      map[webhook.OrderingKey]time.Time
	claims      int
	checkpoints inboxkit.MemoryCheckpoints
	down        atomic.Bool
	name        func(webhook.Key) string
}

type row struct {
	webhook.Delivery // with an encrypted body
	seq              int
	order, object    webhook.OrderingKey
	state            engine.State
	attempts         int
	due              time.Time // due time, or the end of the claim
	storedAt         time.Time
	claim            int
}

const stateDone engine.State = "done"

func newEventTable(name func(webhook.Key) string) *eventTable {
	return &eventTable{rows: map[webhook.Key]*row{}, newest: map[webhook.OrderingKey]time.Time{}, name: name}
}

// open returns the waiting and running rows, oldest first.
func (t *eventTable) open() []*row {
	var all []*row
	for _, r := range t.rows {
		if r.state == engine.StateWaiting || r.state == engine.StateRunning {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *row) int {
		return cmp.Or(a.OrderTime().Compare(b.OrderTime()), cmp.Compare(a.seq, b.seq))
	})
	return all
}

// claimNext claims a due event for a worker. It returns the oldest event of an ordering key, and no
// event of the key while another one is running.
func (t *eventTable) claimNext(lease time.Duration) *row {
	now, open := time.Now(), t.open()
	running := map[webhook.OrderingKey]bool{}
	for _, r := range open {
		if r.state == engine.StateRunning && r.order != "" && now.Before(r.due) {
			running[r.order] = true
		}
	}
	first := map[webhook.OrderingKey]bool{}
	for _, r := range open {
		behind := r.order != "" && (first[r.order] || running[r.order])
		first[r.order] = true
		if behind || now.Before(r.due) {
			continue
		}
		t.claims++
		r.state, r.claim, r.due = engine.StateRunning, t.claims, now.Add(lease)
		r.attempts++
		given := *r
		return &given
	}
	return nil
}

// settle stores the outcome of an attempt, if the event still belongs to the claim.
func (t *eventTable) settle(claimed *row, a webhook.Attempt) error {
	r := t.rows[claimed.Key]
	if r.state != engine.StateRunning || r.claim != claimed.claim {
		return inboxkit.ErrClaimLost
	}
	r.state, r.due = engine.StateWaiting, time.Now()
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		r.state, r.Body = stateDone, nil
		if a.Object != "" && a.Result == webhook.ResultHandled && a.CreatedAt.After(t.newest[a.Object]) {
			t.newest[a.Object] = a.CreatedAt
		}
	case webhook.ResultDead:
		r.state = engine.StateDead
	case webhook.ResultReturned:
		r.attempts--
	default:
		r.due = r.due.Add(a.RetryIn)
	}
	return nil
}

// change is one write of the group commit.
type change struct {
	name  string
	at    time.Time
	apply func() error
}

// tableInbox is the engine of one replica, on the shared table.
type tableInbox struct {
	process *schedule.Process
	table   *eventTable
	ring    seal.AEAD
	worker  *inboxkit.Worker
	life    *inboxkit.Lifecycle
	batcher *inboxkit.Batcher[change]
	wake    chan struct{}
}

const (
	claimTime = 45 * time.Second // duration of a claim, including the handler's timeout
	pollEvery = 17*time.Second + 17*time.Millisecond
)

func newTableInbox(p *schedule.Process, table *eventTable, ring seal.AEAD, work webhook.Work) *tableInbox {
	worker, err := inboxkit.NewWorker(work)
	if err != nil {
		panic(err)
	}
	i := &tableInbox{process: p, table: table, ring: ring, worker: worker, life: inboxkit.NewLifecycle(), wake: make(chan struct{}, 1)}
	i.batcher = inboxkit.NewBatcher(inboxkit.BatcherConfig[change]{
		Commit: i.commit,
		// All writes of one moment form one batch, independent of goroutine scheduling.
		Wait: func(batch []*inboxkit.Write[change]) time.Duration {
			return time.Nanosecond - time.Since(batch[0].Value.at)
		},
	})
	for n := range worker.Work().Workers {
		go i.work(n)
	}
	return i
}

// ask makes a call to the database.
func (i *tableInbox) ask(ctx context.Context, name string, alone bool, work func() error) error {
	call := schedule.Spec{Name: "database: " + name, Fates: databaseFates, Alone: alone, Fail: func(schedule.Fate) error { return errDatabase }}
	_, err := schedule.Do(ctx, i.process, call, func() (nothing, error) {
		i.table.mu.Lock()
		defer i.table.mu.Unlock()
		if i.table.down.Load() {
			return nothing{}, errDatabase
		}
		return nothing{}, work()
	})
	return err
}

// commit stores a batch in one transaction.
func (i *tableInbox) commit(batch []*inboxkit.Write[change]) {
	var names []string
	for _, w := range batch {
		names = append(names, w.Value.name)
	}
	slices.Sort(names) // the order of the batch is random
	outcomes := make([]error, len(batch))
	err := i.ask(context.Background(), "store "+strings.Join(names, " and "), false, func() error {
		for n, w := range batch {
			outcomes[n] = w.Value.apply()
		}
		return nil
	})
	for n, w := range batch {
		w.Done(cmp.Or(err, outcomes[n]))
	}
}

// Accept implements [webhook.Inbox].
func (i *tableInbox) Accept(ctx context.Context, d webhook.Delivery) (_ webhook.Receipt, err error) {
	r := &row{Delivery: d, state: engine.StateWaiting, due: time.Now()}
	r.order, r.object = i.worker.OrderingKeys(d)
	if r.Body, err = inboxkit.SealBody(i.ring, d.Key, d.Body); err != nil {
		return webhook.Receipt{}, err
	}
	duplicate := false // a canceled write may still set it
	err = i.batcher.DoUrgent(ctx, change{i.table.name(d.Key), time.Now(), func() error {
		if duplicate = i.table.rows[d.Key] != nil; !duplicate {
			i.table.accepted++
			r.seq = i.table.accepted
			r.storedAt = time.Now()
			i.table.rows[d.Key] = r
		}
		return nil
	}})
	select {
	case i.wake <- struct{}{}:
	default:
	}
	return webhook.Receipt{Duplicate: err == nil && duplicate}, err
}

// Missing implements [reconcile.Inbox].
func (i *tableInbox) Missing(ctx context.Context, keys []webhook.Key) (missing []webhook.Key, err error) {
	err = i.ask(ctx, "which events are missing", false, func() error {
		missing = inboxkit.Missing(keys, func(key webhook.Key) bool { return i.table.rows[key] != nil })
		return nil
	})
	return missing, err
}

// ClaimCheckpoint implements [reconcile.Inbox].
func (i *tableInbox) ClaimCheckpoint(ctx context.Context, name, owner string, ttl time.Duration) (state []byte, err error) {
	err = i.ask(ctx, "claim the checkpoint", false, func() (err error) {
		state, err = i.table.checkpoints.ClaimCheckpoint(ctx, name, owner, ttl)
		return err
	})
	return bytes.Clone(state), err
}

// SaveCheckpoint implements [reconcile.Inbox]. The reconciler calls it under a lock.
func (i *tableInbox) SaveCheckpoint(ctx context.Context, name, owner string, state []byte, ttl time.Duration) error {
	return i.ask(ctx, "save the checkpoint", true, func() error { return i.table.checkpoints.SaveCheckpoint(ctx, name, owner, state, ttl) })
}

// ReleaseCheckpoint implements [reconcile.Inbox].
func (i *tableInbox) ReleaseCheckpoint(ctx context.Context, name, owner string) error {
	return i.ask(ctx, "release the checkpoint", false, func() error { return i.table.checkpoints.ReleaseCheckpoint(ctx, name, owner) })
}

// work handles events one at a time until the process ends.
func (i *tableInbox) work(n int) {
	for {
		var claimed *row
		var newest time.Time
		err := i.ask(i.process.Context(), fmt.Sprintf("claim an event (worker %d)", n+1), false, func() error {
			if claimed = i.table.claimNext(claimTime); claimed != nil {
				newest = i.table.newest[claimed.object]
			}
			return nil
		})
		if err == nil && claimed != nil {
			i.handle(claimed, newest)
			continue
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-i.wake:
		case <-timer.C:
		case <-i.process.Context().Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (i *tableInbox) handle(claimed *row, newest time.Time) {
	task := inboxkit.Task{Delivery: claimed.Delivery, Attempt: claimed.attempts, Object: claimed.object, Newest: newest}
	task.Body, task.Err = inboxkit.OpenBody(i.ring, claimed.Key, claimed.Body)
	if most := i.worker.Work().Retry.MaxAttempts; claimed.attempts > most {
		task.Attempt, task.Err = most, webhook.ErrAbandoned
	}
	// An event without a recorded outcome runs again after the end of its claim.
	_ = i.worker.Do(i.process.Context(), task, func(a webhook.Attempt) error {
		return i.life.Record(i.worker.Work().Logger, claimTime, func() error {
			return i.batcher.DoUrgent(context.Background(), change{"the outcome of " + i.table.name(a.Key), time.Now(), func() error { return i.table.settle(claimed, a) }})
		})
	})
}

var errHandler = errors.New("the handler failed for " + canary)
