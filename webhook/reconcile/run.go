package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
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
	first        bool // the run reads events from before the last run
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
