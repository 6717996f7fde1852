package webhooks

import (
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Entry is one event on its way to one integration. As any row, it is replaced and
// never changed; see [Sender.change].
type Entry struct {
	model.Delivery
	Event    model.Event
	ClinicID string // of the integration: whose log has it
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

// isDue reports whether the delivery waits for an attempt.
func (d *Entry) isDue() bool { return !d.NextAttemptAt.IsZero() }

func (d *Entry) Latest() model.Attempt { return d.Attempts[len(d.Attempts)-1] }
