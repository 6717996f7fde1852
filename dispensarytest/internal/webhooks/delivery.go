package webhooks

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Entry is one event on its way to one integration. As any row, it is replaced and
// never changed; see [Sender.change].
type Entry struct {
	model.Delivery
	Event    model.Event
	clinicID string // of the integration: whose log has it
	held     bool   // until another delivery has overtaken it
}

func (d *Entry) snapshot() model.Delivery {
	copied := d.Delivery
	copied.Attempts = slices.Clone(d.Attempts)
	return copied
}

// byAttempt is the delivery as each of its attempts left it.
func (d *Entry) byAttempt() (rows []*Entry) {
	for i, a := range d.Attempts {
		row := &Entry{Delivery: d.snapshot(), Event: d.Event}
		row.ID = fmt.Sprintf("%s-%d", d.ID, i+1)
		row.Attempts, row.Delivered = row.Attempts[:i+1], a.Err == ""
		if i+1 < len(d.Attempts) {
			row.NextAttemptAt = d.Attempts[i+1].At
		}
		rows = append(rows, row)
	}
	return rows
}

func (d *Entry) Latest() model.Attempt { return d.Attempts[len(d.Attempts)-1] }

// How deliveries can be listed; see [table.Table.Span].
const (
	deliveriesByEvent   = 0
	deliveriesByAge     = 1 // still due or not, by the time of the event
	deliveriesByClinic  = 2 // from here on: the clinic whose log has them
	deliveriesByTime    = 3 // and by the time of the latest attempt
	deliveriesByOutcome = 4 // and whether it was delivered
	outcomesByTime      = 5 // and whether it was delivered, by the time of the latest attempt
	deliveriesByEventID = 6 // and the event
)

// Keys of deliveries.
const (
	stillDue    = "due"
	notDue      = "not due"
	unattempted = "-" // shown to no clinic yet
)

func sortDeliveries(rows *table.Table[*Entry]) {
	due := func(d *Entry) string {
		if d.NextAttemptAt.IsZero() {
			return notDue
		}
		return stillDue
	}
	shown := func(d *Entry) string {
		if len(d.Attempts) == 0 {
			return unattempted
		}
		return d.clinicID
	}
	attempted := func(d *Entry) time.Time {
		if len(d.Attempts) == 0 {
			return time.Time{}
		}
		return d.Latest().At
	}
	event := func(d *Entry) string { return d.EventID }
	outcome := func(d *Entry) string { return strconv.FormatBool(d.Delivered) }
	rows.IndexBy(
		table.By(event), table.ByTime(func(d *Entry) time.Time { return d.Event.CreatedAt }, due), table.By(shown), table.ByTime(attempted, shown),
		table.By(shown, outcome), table.ByTime(attempted, shown, outcome), table.By(shown, event),
	)
}
