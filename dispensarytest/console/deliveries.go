package console

import (
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// slots is how many attempts the platform makes at most.
const slots = 6

// slot is one attempt of a delivery: made, due, or never to be.
type slot struct {
	Number int
	State  string // "done", "failed", "due", "later" or "never"
	Text   string
}

// deliveryRow is a delivery as a timeline.
type deliveryRow struct {
	dispensarytest.Delivery
	Slots []slot
	By    []byHand
}

// byHand checks a signature without any code of ours.
type byHand struct {
	dispensarytest.Attempt
	Number  int
	Command string
}

func (h *Handler) deliveries() any {
	type view struct {
		Endpoint   dispensarytest.Endpoint
		Registered bool
		Rows       []deliveryRow
	}
	var v view
	v.Endpoint, v.Registered = h.fake.Webhook()
	now, secret := h.fake.Clock().Now(), h.fake.Application().WebhookSecret
	for _, d := range newest(h.fake.Deliveries()) {
		row := deliveryRow{Delivery: d, Slots: timeline(d, now)}
		for i, a := range d.Attempts {
			row.By = append(row.By, byHand{Attempt: a, Number: i + 1, Command: verifyCommand(a, secret)})
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// timeline says of each slot what became of it.
func timeline(d dispensarytest.Delivery, now time.Time) []slot {
	line := make([]slot, max(slots, len(d.Attempts)))
	for i := range line {
		s := slot{Number: i + 1, State: "never", Text: "never"}
		switch {
		case i < len(d.Attempts) && d.Attempts[i].Err == "":
			s.State, s.Text = "done", "done "+d.Attempts[i].At.Format("15:04:05")
		case i < len(d.Attempts):
			s.State, s.Text = "failed", "failed "+d.Attempts[i].At.Format("15:04:05")
		case i == len(d.Attempts) && !d.NextAttemptAt.IsZero():
			s.State, s.Text = "due", "due "+ago(d.NextAttemptAt, now)
		case !d.NextAttemptAt.IsZero():
			s.State, s.Text = "later", "if needed"
		}
		line[i] = s
	}
	return line
}

// verifyCommand computes the signature in a shell.
func verifyCommand(a dispensarytest.Attempt, secret string) string {
	timestamp, _, _ := strings.Cut(strings.TrimPrefix(a.Signature, "t="), ",")
	if a.Signature == "" {
		return "# this request was not signed"
	}
	return "printf %s " + quoted(timestamp+"."+string(a.RequestBody)) + " | openssl dgst -sha256 -hmac " + quoted(secret) +
		"\n# compare with v1 in: " + a.Signature
}
