package console

import (
	"net/url"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// slots is how many attempts the platform makes at most.
const slots = 6

// slot is one attempt of a delivery: made, due, or made later if it is needed.
type slot struct {
	Number int
	State  string // "done", "failed", "due" or "later"
	Detail string // when it was, or will be
}

// Word is the state for people: what comes later is made if it is needed.
func (s slot) Word() string {
	if s.State == "later" {
		return "if needed"
	}
	return s.State
}

// deliveryRow is a delivery as a timeline.
type deliveryRow struct {
	model.Delivery
	State string // as that of a slot
	Text  string // where it stands
	Press string // the button that makes the next attempt
	Slots []slot
	By    []manualCheck
}

// manualCheck checks a signature without any code of ours.
type manualCheck struct {
	model.Attempt
	Number  int
	Command string
}

func (h *Handler) deliveries(query url.Values) any {
	type view struct {
		Endpoint   model.Endpoint
		Registered bool
		Filter     filter
		Rows       []deliveryRow
		Now, Next  time.Time
	}
	v := view{Filter: filterOf(query)}
	v.Endpoint, v.Registered = h.fake.Webhooks.Endpoint()
	v.Now, v.Next = h.fake.Clock().Now(), h.next()
	secret := h.fake.Application().WebhookSecret
	for _, d := range filtered(&v.Filter, h.fake.Webhooks.Deliveries(), func(d model.Delivery) (state, text string) {
		_, text = deliveryState(d)
		return text, strings.Join([]string{d.EventType, d.EventID, d.IntegrationID, d.ID, text}, "\n")
	}) {
		row := deliveryRow{Delivery: d, Slots: timeline(d, v.Now)}
		row.State, row.Text = deliveryState(d)
		if row.Press = "Deliver now"; len(d.Attempts) > 0 {
			row.Press = "Retry now"
		}
		for i, a := range d.Attempts {
			row.By = append(row.By, manualCheck{Attempt: a, Number: i + 1, Command: verifyCommand(a, secret)})
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// deliveryStates are all that deliveryState says.
var deliveryStates = []string{"delivered", "on its way", "failing", "given up", "lost on the way", "stopped with the endpoint", "ended with the clinic's key"}

// deliveryState says where a delivery stands as a whole.
func deliveryState(d model.Delivery) (state, text string) {
	switch {
	case d.Delivered:
		return "done", "delivered"
	case d.Lost:
		return "failed", "lost on the way"
	case d.Stopped:
		return "failed", "stopped with the endpoint"
	case d.Revoked:
		return "failed", "ended with the clinic's key"
	case !d.NextAttemptAt.IsZero() && len(d.Attempts) == 0:
		return "due", "on its way"
	case !d.NextAttemptAt.IsZero():
		return "due", "failing"
	}
	return "failed", "given up"
}

// timeline says of each slot what became of it; what will never be is left out.
func timeline(d model.Delivery, now time.Time) []slot {
	n := len(d.Attempts)
	if !d.NextAttemptAt.IsZero() {
		n = max(slots, n)
	}
	line := make([]slot, n)
	for i := range line {
		s := slot{Number: i + 1, State: "later"}
		switch {
		case i < len(d.Attempts):
			s.State, s.Detail = "done", d.Attempts[i].At.Format("15:04:05")
			if d.Attempts[i].Err != "" {
				s.State = "failed"
			}
		case i == len(d.Attempts) && !d.NextAttemptAt.IsZero():
			s.State, s.Detail = "due", webpage.Ago(d.NextAttemptAt, now)
		}
		line[i] = s
	}
	return line
}

// verifyCommand computes the signature in a shell.
func verifyCommand(a model.Attempt, secret string) string {
	timestamp, _, _ := strings.Cut(strings.TrimPrefix(a.Signature, "t="), ",")
	if a.Signature == "" {
		return "# this request was not signed"
	}
	return "printf %s " + quoted(timestamp+"."+string(a.RequestBody)) + " | openssl dgst -sha256 -hmac " + quoted(secret) +
		"\n# compare with v1 in: " + a.Signature
}
