package webhooks

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// Defaults of effects that can do without their field.
const (
	signatureLag = 10 * time.Minute
	overtaken    = time.Minute
)

// All returns the deliveries that are kept, in the order of their events.
func (s *Sender) All() []model.Delivery {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Forget(s.Clock.Now(), nil)
	all := make([]model.Delivery, 0, s.Deliveries.Len())
	for d := range s.Deliveries.All() {
		all = append(all, d.snapshot())
	}
	return all
}

// Skipped returns the events that were not sent, sorted by event id.
func (s *Sender) Skipped() []model.Skip {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var skips []model.Skip
	for skip := range s.Skips.All() {
		skips = append(skips, *skip)
	}
	slices.SortFunc(skips, func(a, b model.Skip) int { return strings.Compare(a.EventID, b.EventID) })
	return skips
}

// Stopped reports that the sender stopped for good.
func (s *Sender) Stopped() bool { return s.ctx.Err() != nil }
