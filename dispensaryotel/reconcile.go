package dispensaryotel

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Reconcile returns c with observation added. The observer of c is called first.
//
// It records the duration of each run, and counts the events whose webhooks never arrived:
// recovered events, and lost events, which the platform no longer has. It does not record
// skipped runs. It does not count the events of a first run, because they may be older than
// the webhooks. The calls of a run have their own spans.
func (t *Telemetry) Reconcile(c reconcile.Config) reconcile.Config {
	own, of := c.Observer.RunEnd, c.Environment
	c.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
		defer t.reconciled(ctx, of, report, err)
		if own != nil {
			own(ctx, report, err)
		}
	}
	return c
}

// reconciled records a run.
func (t *Telemetry) reconciled(ctx context.Context, of api.Environment, report reconcile.Report, err error) {
	if report.Skipped {
		return
	}
	t.reconcileDuration.Record(ctx, report.Duration, append(environment(of), failed(reason(err))...)...)
	if report.First {
		return
	}
	lost := 0
	for _, gap := range report.Gaps {
		if gap.Err == nil { // otherwise a later run retries it
			lost++
		}
	}
	for result, n := range map[string]int{"recovered": len(report.Recovered), "lost": lost} {
		if n > 0 {
			t.reconcileEvents.Add(ctx, n, append(environment(of), signal.ReconcileResult.Of(result))...)
		}
	}
}
