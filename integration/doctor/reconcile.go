package doctor

import (
	"context"

	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// missedIntervals is the number of intervals without a run after which nothing reconciles.
const missedIntervals = 3

// reconcile checks that a replica looks for missed webhooks.
func (r *run) reconcile(ctx context.Context) Row {
	const consequence = "events that the platform cannot deliver are lost after 30 days"
	if len(r.config.Webhook.Secrets) == 0 {
		return skip("no webhook secret is configured, so no webhooks are received")
	}
	inbox, ok := r.config.Inbox.(reconcile.CheckpointReader)
	if !ok {
		return skip("the inbox has no checkpoints to read")
	}
	status, err := reconcile.ReadStatus(ctx, inbox, r.environment().String())
	if err != nil {
		return fail(reason(err), consequence, away)
	}
	age := r.config.Now().Sub(status.Taken)
	switch {
	case status.Taken.IsZero():
		return fail("no replica has ever looked for missed webhooks", consequence,
			"start the program: Run of package integration reconciles, unless Setup.DisableReconcile is true; without that package, run reconcile.Clinics")
	case age > missedIntervals*r.config.ReconcileEvery:
		return fail("no replica has looked for missed webhooks for "+days(age), consequence,
			"look for the reason in the log of the program, whose lines say that webhook events are not reconciled")
	}
	return pass("the last pass over all clinics began %s ago", days(r.config.Now().Sub(status.PassBegan)))
}
