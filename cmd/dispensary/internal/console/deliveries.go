package console

import (
	"net/http"
	"net/url"
	"strconv"
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

// deliveryRow is a delivery, and where it stands.
type deliveryRow struct {
	model.Delivery
	Standing standing
	Press    string // the button that makes the next attempt

	// Where its details are shown.
	About string // the object of its event; the event, where that is forgotten
	Slots []slot
	Tries []attemptShown
}

// Last is when something happened to it last, zero while nothing has.
func (r deliveryRow) Last() (last time.Time) {
	if n := len(r.Attempts); n > 0 {
		last = r.Attempts[n-1].At
	}
	return last
}

// Reason is the problem of the last attempt in a few words, or "".
func (r deliveryRow) Reason() string {
	n := len(r.Attempts)
	switch {
	case n == 0 || r.Attempts[n-1].Err == "":
		return ""
	case r.Attempts[n-1].Status == 0:
		return "no response"
	case r.Attempts[n-1].Status == http.StatusOK || r.Attempts[n-1].Status == http.StatusCreated:
		return "wrong response"
	}
	return "status " + strconv.Itoa(r.Attempts[n-1].Status)
}

// attemptShown is an attempt with what repeats and checks it without any code of ours.
type attemptShown struct {
	model.Attempt
	Number       int
	Curl, Verify string
}

// deliveryText is what a delivery is found by.
func deliveryText(d model.Delivery) string {
	return strings.Join([]string{d.EventType, d.EventID, d.IntegrationID, d.ID, d.String()}, "\n")
}

func (h *Handler) deliveries(query url.Values) any {
	type view struct {
		Endpoint   model.Endpoint
		Registered bool
		Filter     filter
		Chart      *webpage.Chart
		Rows       []deliveryRow
		Now, Next  time.Time
	}
	v := view{Filter: filterOf(query)}
	v.Endpoint, v.Registered = h.fake.Webhooks.Endpoint()
	v.Now, v.Next = h.fake.Clock.Now(), h.next()
	all := h.fake.Webhooks.Deliveries()
	v.Chart = chartOf(all, v.Now)
	for _, d := range filtered(&v.Filter, all, func(d model.Delivery) listed {
		s := deliveryState(d)
		return listed{ID: d.ID, Kind: d.EventType, State: s.Text, Failed: s.Failed, Text: func() string { return deliveryText(d) }}
	}) {
		row := deliveryRow{Delivery: d, Standing: deliveryState(d), Press: "Retry now"}
		if len(d.Attempts) == 0 {
			row.Press = "Deliver now"
		}
		if d.ID == v.Filter.Selected {
			row.About = d.EventID
			for _, e := range h.fake.Events() {
				if e.ID == d.EventID {
					row.About = e.ObjectID
				}
			}
			row.Slots, row.Tries = slotsOf(d, v.Now), h.attempts(d, v.Endpoint)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// chartOf returns the attempts of the last 24 hours.
func chartOf(all []model.Delivery, now time.Time) *webpage.Chart {
	chart := webpage.NewChart(now.UTC(), webpage.Series{Name: "failed", Class: "failed"}, webpage.Series{Name: "delivered", Class: "done"})
	for _, d := range all {
		for n, attempt := range d.Attempts {
			series := 0
			if d.Delivered && n == len(d.Attempts)-1 {
				series = 1
			}
			chart.Add(series, attempt.At, 1)
		}
	}
	return &chart
}

func (h *Handler) attempts(d model.Delivery, to model.Endpoint) (all []attemptShown) {
	secret := h.fake.Application().WebhookSecret
	for i, a := range d.Attempts {
		all = append(all, attemptShown{Attempt: a, Number: i + 1, Curl: webhookCurl(a, to.URL), Verify: verifyCommand(a, secret)})
	}
	return all
}

// standing is where a delivery is as a whole.
type standing struct {
	State  string // as that of a slot
	Text   string
	Failed bool // its attempts have failed so far, or for good
}

func deliveryState(d model.Delivery) standing {
	switch {
	case d.Delivered:
		return standing{"done", "delivered", false}
	case d.Lost:
		return standing{"failed", "lost on the way", true}
	case d.Stopped:
		return standing{"failed", "stopped with the endpoint", true}
	case d.Revoked:
		return standing{"failed", "ended with the clinic's key", true}
	case !d.NextAttemptAt.IsZero() && len(d.Attempts) == 0:
		return standing{"due", "on its way", false}
	case !d.NextAttemptAt.IsZero():
		return standing{"due", "failing", true}
	}
	return standing{"failed", "given up", true}
}

// slotsOf says of each slot what became of it; what will never be is left out.
func slotsOf(d model.Delivery, now time.Time) []slot {
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

// webhookCurl sends a webhook again, as it was signed.
func webhookCurl(a model.Attempt, to string) string {
	command := "curl -i --json " + quoted(string(a.RequestBody))
	if a.Signature != "" {
		command += " -H " + quoted("SVC-Signature: "+a.Signature)
	}
	return command + " " + quoted(to)
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
