package dispensarytest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Attempt is one request to the webhook endpoint.
type Attempt struct {
	At             time.Time
	Probe          bool   // it ended with the empty probe; the event was not sent
	Signature      string // the SVC-Signature header
	RequestBody    []byte
	Status         int // 0 when there was no answer
	ResponseHeader string
	ResponseBody   string
	IPAddress      string
	Err            string // what made it a failure; empty on success
	Fault          Effect // what a [Fault] did to it
}

// Delivery is one event for one integration, with every attempt made so far.
type Delivery struct {
	ID            string
	EventID       string
	EventType     string
	IntegrationID string
	Attempts      []Attempt
	NextAttemptAt time.Time // zero when none is due
	Delivered     bool
	Stopped       bool // the endpoint went away or was disabled
	Revoked       bool // the clinic revoked the integration's key before it was delivered
	Lost          bool // a [Fault] kept it from being made
}

// String says where the delivery stands.
func (d Delivery) String() string {
	text := "no attempt yet"
	if n := len(d.Attempts); n > 0 {
		text = fmt.Sprintf("attempt %d: ok", n)
		if why := d.Attempts[n-1].Err; why != "" {
			text = fmt.Sprintf("attempt %d failed: %s", n, why)
		}
	}
	switch {
	case d.Revoked:
		text += "; the clinic revoked the integration's key"
	case d.Stopped:
		text += "; stopped with the endpoint"
	case !d.NextAttemptAt.IsZero() && len(d.Attempts) > 0:
		text += "; next attempt at " + d.NextAttemptAt.Format(time.RFC3339)
	}
	return text
}

// Skip is an event that was not sent, and why: nobody subscribed, no active
// integration, or a delivery condition. The conditions, an assumption, are that
// at least one live token of the clinic has the scope of the event's type.
type Skip struct {
	EventID string
	Reason  string
}

// Deliveries returns the deliveries of the events that are kept, see
// [WithEventLimit], in the order of their events.
func (s *Server) Deliveries() []Delivery {
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	s.sender.forget(s.clock.Now(), nil)
	all := make([]Delivery, 0, s.sender.deliveries.Len())
	for d := range s.sender.deliveries.All() {
		all = append(all, d.snapshot())
	}
	return all
}

// Skips returns the events that were not sent, sorted by event id.
func (s *Server) Skips() []Skip {
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	var skips []Skip
	for skip := range s.sender.skips.All() {
		skips = append(skips, *skip)
	}
	slices.SortFunc(skips, func(a, b Skip) int { return strings.Compare(a.EventID, b.EventID) })
	return skips
}

func (d *delivery) snapshot() Delivery {
	copied := d.Delivery
	copied.Attempts = slices.Clone(d.Attempts)
	return copied
}

// deliveryView is a delivery as the API shows it. API section: "Webhook
// delivery".
type deliveryView struct {
	ID                string  `json:"id"`
	AttemptNumber     int     `json:"attempt_number"`
	AttemptedAt       string  `json:"attempted_at"`
	PreviousAttemptAt *string `json:"previous_attempt_at"`
	NextAttemptAt     *string `json:"next_attempt_at"`
	Delivered         bool    `json:"successfully_delivered"`
	ResponseBody      string  `json:"response_body"`
	ResponseHeader    string  `json:"response_header"`
	ResponseStatus    *int    `json:"response_status"`
	ResponseIPAddress string  `json:"response_ip_address"`
	ResponseErrors    *string `json:"response_errors"`
	EventPayload      struct {
		Event eventView `json:"event"`
	} `json:"event_payload"`
}

// listDeliveries shows one row for each event and integration, as its latest
// attempt left it. That, and a response_status of null where no answer came, is
// an assumption.
func listDeliveries(c *call, w *world) (reply, error) {
	day, err := c.params.days("attempted_at")
	if err != nil {
		return reply{}, err
	}
	delivered, err := c.params.oneOf("successfully_delivered", "true", "false")
	if err != nil {
		return reply{}, err
	}
	field, descending, err := c.params.order("event_id", "attempted_at")
	if err != nil {
		return reply{}, err
	}
	s := c.srv.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c.now, nil)
	asked := deliveryQuery{clinic: c.clinicID(), event: c.params.get("event_id"), delivered: delivered, days: day, field: field, descending: descending}
	list := asked.list
	if c.reads.logAttempts {
		list = asked.attempts
	}
	return listOf(c, list(&s.deliveries), func(d *delivery) deliveryView { return viewDelivery(d, c.reads.zeroStatus) }), nil
}

// byAttempt is the delivery as each of its attempts left it.
func (d *delivery) byAttempt() (rows []*delivery) {
	for i, a := range d.Attempts {
		row := &delivery{Delivery: d.snapshot(), event: d.event}
		row.ID = fmt.Sprintf("%s-%d", d.ID, i+1)
		row.Attempts, row.Delivered = row.Attempts[:i+1], a.Err == ""
		if i+1 < len(d.Attempts) {
			row.NextAttemptAt = d.Attempts[i+1].At
		}
		rows = append(rows, row)
	}
	return rows
}

func (d *delivery) latest() Attempt { return d.Attempts[len(d.Attempts)-1] }

func viewDelivery(d *delivery, zeroStatus bool) deliveryView {
	last := d.latest()
	view := deliveryView{
		ID: d.ID, AttemptNumber: len(d.Attempts), AttemptedAt: stamp(last.At),
		NextAttemptAt: stampOrNull(d.NextAttemptAt), Delivered: d.Delivered,
		ResponseBody: last.ResponseBody, ResponseHeader: last.ResponseHeader,
		ResponseIPAddress: last.IPAddress, ResponseErrors: orNull(last.Err),
	}
	if last.Status != 0 || zeroStatus {
		view.ResponseStatus = new(last.Status)
	}
	if n := len(d.Attempts); n > 1 {
		view.PreviousAttemptAt = new(stamp(d.Attempts[n-2].At))
	}
	view.EventPayload.Event = viewEvent(&d.event)
	view.EventPayload.Event.IntegrationID = d.IntegrationID
	return view
}
