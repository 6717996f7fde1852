package webhook

import (
	"bytes"
	"context"
	"slices"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// maxData is how much data of events, in bytes, is kept from the delivery log
// until it is accepted. What is beyond it is read from the platform once more.
const maxData = 32 << 20

// listNotices walks the log of what could not be delivered. It says which
// webhooks failed and why, and it has the events as they were sent, which saves
// reading them. A log that cannot be read is no reason not to go on. It returns
// an error only where the run ends by it.
func (n *run) listNotices(ctx context.Context) error {
	options := events.DeliveryListOptions{Outcome: events.Undelivered, SortBy: events.DeliveriesByAttempt, Order: api.Descending}
	known := map[Key]bool{}
	for page, err := range n.config.Events.Deliveries.Pages(ctx, options) {
		if err != nil {
			n.report.NoticesErr = err
			if ends(ctx, err) {
				return err
			}
			return nil
		}
		n.report.Pages++
		if err := n.note(ctx, page.Items, known); err != nil {
			return err
		}
		if n.notices.last.Before(n.notices.from) {
			break
		}
	}
	n.notices.listed = true
	return nil
}

// note takes note of a page of the log. Of several attempts to deliver an event
// the first that is listed is the latest.
func (n *run) note(ctx context.Context, page []events.Delivery, known map[Key]bool) error {
	var sent []events.Event
	first := len(n.report.Notices)
	for _, d := range page {
		w := n.notices
		w.last, w.newest = d.AttemptedAt.Time, later(d.AttemptedAt.Time, w.newest)
		e, err := d.Event()
		key := n.key(e, e.IntegrationID)
		if err != nil || bool(d.SuccessfullyDelivered) || w.last.Before(w.from) || known[key] || !n.ours(key) {
			continue
		}
		known[key] = true
		sent = append(sent, e)
		n.report.Notices = append(n.report.Notices, Notice{
			Key:           key,
			Type:          e.Type,
			Attempts:      int(d.AttemptNumber),
			AttemptedAt:   d.AttemptedAt.Time,
			NextAttemptAt: d.NextAttemptAt.Time,
			Status:        int(d.ResponseStatus),
			Reason:        d.ResponseErrors,
		})
	}
	missing, err := n.missing(ctx, sent)
	if err != nil {
		return err
	}
	for i, e := range sent {
		notice := &n.report.Notices[first+i]
		if missing[notice.Key] && missing[n.key(e, "")] && !e.CreatedAt.Before(n.state.Since) {
			notice.Missed = true
			n.missSent(e, notice.Key)
		}
	}
	return nil
}

// ours reports that events under this key are for this reconciler: products
// belong to no clinic, and the log may tell of all who were sent them.
func (n *run) ours(key Key) bool {
	return key.IntegrationID == "" || slices.Contains(n.integrations, key.IntegrationID)
}

// missSent notes an event that was missed, by its notice.
func (n *run) missSent(e events.Event, key Key) {
	m := n.found[e.ID]
	if m == nil {
		data := e.Data
		e.Data = nil
		if n.kept+len(data) <= maxData {
			n.kept += len(data)
			e.Data = bytes.Clone(data) // and not the whole page
		}
		m = &missed{event: e, walk: n.notices, seat: len(n.found)}
		n.found[e.ID] = m
	}
	if m.bare = m.bare || key.IntegrationID == ""; m.bare {
		m.keys = nil
	}
	m.keys = append(m.keys, key)
}
