package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// PeriodicReconcile returns a job for a River client that runs a reconciler of
// this inbox, at the client's start and then every so often; an hour is a good
// interval. River's leader inserts it, so that one replica is asked each time:
//
//	inbox.Client().PeriodicJobs().Add(inbox.PeriodicReconcile("us", reconciler, time.Hour))
//
// Every replica has to call it with the same names, each of which stands for one
// reconciler, because any replica may be the one that is asked. The client is one
// that the inbox was added to, as that of [Open] is. What the run reports is the
// output of the job.
func (i *Inbox) PeriodicReconcile(name string, r *reconcile.Reconciler, interval time.Duration) *river.PeriodicJob {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reconcilers[name] = r
	return river.NewPeriodicJob(river.PeriodicInterval(interval), func() (river.JobArgs, *river.InsertOpts) {
		return reconciliation{name}, &river.InsertOpts{Queue: i.reconcileQueue(), MaxAttempts: reconcileAttempts}
	}, &river.PeriodicJobOpts{RunOnStart: true})
}

// reconcileAttempts is how often a run is tried before the next one is due.
const reconcileAttempts = 3

// reconcileTimeout ends a run, which costs nothing: the next one goes on.
const reconcileTimeout = time.Hour

// reconcileQueue is another queue, because a run may take long and must not
// keep events waiting.
func (i *Inbox) reconcileQueue() string { return i.config.Queue + "_reconcile" }

// reconciliation is the arguments of a run.
type reconciliation struct {
	Name string `json:"name"`
}

// Kind is how River calls these jobs.
func (reconciliation) Kind() string { return "dispensary_reconcile" }

type reconcileWorker struct {
	river.WorkerDefaults[reconciliation]
	inbox *Inbox
}

func (w *reconcileWorker) Timeout(*river.Job[reconciliation]) time.Duration { return reconcileTimeout }

// Work runs the reconciler, unless another replica is at it. The run ends when Close does not
// wait any longer.
func (w *reconcileWorker) Work(ctx context.Context, job *river.Job[reconciliation]) error {
	w.inbox.mu.Lock()
	r := w.inbox.reconcilers[job.Args.Name]
	w.inbox.mu.Unlock()
	if r == nil {
		return fmt.Errorf("riverinbox: this replica has no reconciler %q", job.Args.Name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.inbox.life.Context(), cancel)()
	report, err := r.Run(ctx)
	if errors.Is(err, reconcile.ErrCheckpointHeld) {
		return nil
	}
	return errors.Join(err, river.RecordOutput(ctx, report.String()))
}
