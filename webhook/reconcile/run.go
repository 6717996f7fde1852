package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// run is one run over one clinic. It lists the missed events first, and then reads and accepts
// them. Lists start with the newest event, so that the run can stop at the start of the last
// one. Events are accepted oldest first.
type run struct {
	config       *Config
	clinicID     string
	clinic       Clinic
	now          time.Time
	lease        *lease
	checkpoint   checkpoint
	integrations []string
	arrivals     arrivals
	lists        []*listRun              // by group
	deliveries   *listRun                // of the delivery log
	missed       map[string]*missedEvent // by event id
	logData      int                     // bytes of data in missed from the delivery log
	failed       []error                 // of new failures, at most one per list
	report       Report
}

// listRun reads one list, from the newest entry back to the start of the last run.
type listRun struct {
	group  events.Group
	rank   int       // among the groups
	from   time.Time // an earlier run has read older entries
	report *GroupReport

	before   progress        // of the last run
	seen     map[string]bool // the ids of the previous page
	last     time.Time       // of the previous entry
	newest   time.Time       // of the newest entry, except entries in the future
	unsorted bool
	complete bool // read to its end, and no event left behind
	err      error
}

// missedEvent is an event that the inbox has not seen.
type missedEvent struct {
	event events.Event  // without Data if it must be read
	keys  []webhook.Key // of its webhooks
	list  *listRun
	found int // position in the order of discovery

	withoutIntegration bool // sent without an integration
}

func (m *missedEvent) gap() Gap {
	at := m.event.CreatedAt.Time
	return Gap{Group: m.list.group, From: at, To: at, EventID: m.event.ID, Type: m.event.Type}
}

// save saves the checkpoint.
func (r *run) save(ctx context.Context) error {
	state, err := r.checkpoint.encode()
	if err != nil {
		return err
	}
	return r.lease.save(ctx, state)
}

// endsRun reports whether err ends the run.
func endsRun(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, webhook.ErrInboxClosed) || errors.Is(err, api.ErrRateLimited) ||
		errors.Is(err, api.ErrUnauthorized) || errors.Is(err, api.ErrReauthorize)
}

func (r *run) key(e events.Event, integration string) webhook.Key {
	return webhook.Key{Environment: r.config.Environment, EventID: e.ID, IntegrationID: integration}
}

// maxKeys is the maximum number of keys in a call of Missing.
const maxKeys = 300

// missing returns the keys of listed events that the inbox has not seen.
func (r *run) missing(ctx context.Context, listed []events.Event) (map[webhook.Key]bool, error) {
	var keys []webhook.Key
	for _, e := range listed {
		keys = append(keys, r.key(e, ""))
		for _, id := range r.integrations {
			keys = append(keys, r.key(e, id))
		}
	}
	all := map[webhook.Key]bool{}
	for batch := range slices.Chunk(keys, maxKeys) {
		missing, err := r.config.Inbox.Missing(ctx, batch)
		if err != nil {
			return nil, err
		}
		for _, key := range missing {
			all[key] = true
		}
	}
	return all, nil
}

// execute claims the checkpoint and runs.
func (r *run) execute(ctx context.Context, fresh time.Duration) (err error) {
	working, lease, err := claim(ctx, r.config, r.report.Name)
	if err != nil {
		return fmt.Errorf("reconcile: run failed: %w", err)
	}
	r.lease = lease
	defer func() {
		lease.release()
		// A lost claim is the cause of other failures.
		if err != nil {
			if cause := context.Cause(working); ctx.Err() == nil && cause != errReleased {
				err = cause
			}
			err = fmt.Errorf("reconcile: run failed: %w", err)
		}
	}()
	if err := r.checkpoint.decode(lease.state); err != nil {
		return err
	}
	if since := r.now.Sub(r.checkpoint.Completed); since >= 0 && since < fresh {
		r.report.Skipped = true
		return nil
	}
	if err := r.work(working); err != nil {
		return err
	}
	return errors.Join(r.failed...)
}

// work reconciles the clinic.
func (r *run) work(ctx context.Context) error {
	clinic, err := safecall.Value(func() (Clinic, error) { return r.config.Open(ctx, r.clinicID, r.config.Budget) })
	if err != nil {
		return err
	}
	r.clinic = clinic
	if err := r.prepare(ctx); err != nil {
		return err
	}
	ctx = transport.OneAccount(ctx) // the checkpoint belongs to one clinic
	if err := r.list(ctx); err != nil {
		return err
	}
	if err := r.recoverMissed(ctx); err != nil {
		last, cancel := outlive(ctx)
		defer cancel()
		return errors.Join(err, r.save(last))
	}
	return r.complete(ctx)
}

// prepare reads the start of the run from the checkpoint.
func (r *run) prepare(ctx context.Context) error {
	if err := r.findIntegrations(ctx); err != nil {
		return fmt.Errorf("integrations: %w", err)
	}
	r.report.Groups = make([]GroupReport, len(r.config.Groups))
	r.report.First = r.checkpoint.begin(r.integrations, r.now, r.config.FirstRun)
	r.deliveries = &listRun{rank: len(r.config.Groups), from: r.checkpoint.Deliveries.Add(-r.config.Overlap), report: &GroupReport{}}
	for i, group := range r.config.Groups {
		r.report.Groups[i].Group = group
		r.lists = append(r.lists, &listRun{group: group, rank: i, before: r.checkpoint.Groups[group], from: r.checkpoint.from(group, r.config.Overlap), report: &r.report.Groups[i]})
		if checked, lost := r.checkpoint.Groups[group].Checked, r.now.Add(-retention); !checked.IsZero() && checked.Before(lost) {
			r.report.Gaps = append(r.report.Gaps, Gap{Group: group, From: checked, To: lost})
		}
	}
	if r.report.First {
		return r.save(ctx)
	}
	return nil
}

// findIntegrations requests the integrations if the cached ones are too old.
func (r *run) findIntegrations(ctx context.Context) error {
	age := r.now.Sub(r.checkpoint.Asked)
	if known := r.checkpoint.Integrations; len(known) > 0 && age >= 0 && age < integrationsFor {
		r.integrations = known
		return nil
	}
	ids, err := safecall.Value(func() ([]string, error) { return r.clinic.Integrations(ctx) })
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return errors.New("no ID returned")
	}
	r.integrations, r.checkpoint.Asked = slices.Compact(slices.Sorted(slices.Values(ids))), r.now
	return nil
}

// list finds missed events. If one group cannot be listed, the others are.
func (r *run) list(ctx context.Context) error {
	if err := r.listDeliveries(ctx); err != nil {
		return err
	}
	for _, l := range r.lists {
		if err := r.listGroup(ctx, l); err != nil {
			return err
		}
	}
	return r.addRetries(ctx)
}

// complete records the work in the checkpoint, and returns the errors of unreadable lists.
func (r *run) complete(ctx context.Context) error {
	var failed []error
	for _, l := range r.lists {
		if l.complete {
			r.checkpoint.complete(l.group, l.newest, r.now)
		}
		if l.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", l.group, l.err))
		}
	}
	if r.deliveries.complete {
		r.checkpoint.Deliveries = later(r.checkpoint.Deliveries, r.deliveries.newest)
	}
	if !r.report.First {
		r.checkpoint.NoWebhooks = r.checkpoint.NoWebhooks.after(r.arrivals, r.now)
	}
	if len(failed) == 0 && len(r.failed) == 0 {
		r.checkpoint.Completed = r.now
	}
	return errors.Join(append(failed, r.save(ctx))...)
}
