package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// slots is the platform's maximum number of attempts.
const slots = 6

// slot is one attempt of a delivery: made, due, or possible later.
type slot struct {
	Number int
	State  string // "done", "failed", "due" or "later"
	Detail string // time of the attempt
}

// Word returns the state for people. Later attempts happen only if they are needed.
func (s slot) Word() string {
	if s.State == "later" {
		return "if needed"
	}
	return s.State
}

// deliveryRow is a delivery with its state.
type deliveryRow struct {
	model.Delivery
	Standing standing
	Press    string // label of the button for the next attempt

	// Set if the details are shown.
	About string // object of its event, or the event's id if the event is no longer stored
	Slots []slot
	Tries []attemptShown
}

// Last returns the time of the last attempt, or zero before the first.
func (r deliveryRow) Last() (last time.Time) {
	if n := len(r.Attempts); n > 0 {
		last = r.Attempts[n-1].At
	}
	return last
}

// Reason returns the error of the last attempt in a few words, or "" if it has none.
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

// attemptShown is an attempt with shell commands that repeat and verify it.
type attemptShown struct {
	model.Attempt
	Number       int
	Curl, Verify string
}

// deliveryText returns the searchable text of a delivery.
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
		Unsent     *unsent
	}
	v := view{Filter: filterOf(query), Unsent: h.unsent()}
	v.Endpoint, v.Registered = h.fake.Webhooks.Endpoint()
	v.Now, v.Next = h.fake.Clock.Now().UTC(), h.next()
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

// chartOf returns a chart of the attempts in the last 24 hours.
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

// standing is the state of a whole delivery.
type standing struct {
	State  string // as in slot
	Text   string
	Failed bool // all attempts have failed so far, or the delivery has stopped
}

func deliveryState(d model.Delivery) standing {
	switch {
	case d.Delivered:
		return standing{"done", "delivered", false}
	case d.Lost:
		return standing{"failed", "lost", true}
	case d.Stopped:
		return standing{"failed", "stopped: endpoint gone or disabled", true}
	case d.Revoked:
		return standing{"failed", "stopped: clinic key revoked", true}
	case !d.NextAttemptAt.IsZero() && len(d.Attempts) == 0:
		return standing{"due", "due", false}
	case !d.NextAttemptAt.IsZero():
		return standing{"due", "failing", true}
	}
	return standing{"failed", "failed", true}
}

// slotsOf returns the attempts of a delivery. It omits attempts that can no longer happen.
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

// webhookCurl returns a command that sends a webhook again with its original signature.
func webhookCurl(a model.Attempt, to string) string {
	command := "curl -i --json " + terminal.Quote(string(a.RequestBody))
	if a.Signature != "" {
		command += " -H " + terminal.Quote("SVC-Signature: "+a.Signature)
	}
	return command + " " + terminal.Quote(to)
}

// verifyCommand returns shell commands that compute the signature.
func verifyCommand(a model.Attempt, secret string) string {
	timestamp, _, _ := strings.Cut(strings.TrimPrefix(a.Signature, "t="), ",")
	if a.Signature == "" {
		return "# this request was not signed"
	}
	return "printf %s " + terminal.Quote(timestamp+"."+string(a.RequestBody)) + " | openssl dgst -sha256 -hmac " + terminal.Quote(secret) +
		"\n# compare with v1 in: " + a.Signature
}
