package reconcile

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// Report is the result of one run of [Clinics]. Its printed and logged forms contain numbers only.
type Report struct {
	// Name is the name of the checkpoint: Config.Name and the clinic ID.
	Name string

	// Started is the start of the run, by [Config].Now.
	Started  time.Time
	Duration time.Duration

	// Skipped reports whether the run did nothing, because another replica had just
	// reconciled the clinic.
	Skipped bool

	// Short reports that the run did not read the event lists, because the delivery log has
	// no failed webhook of a missing event, and there was no other reason to read them. See
	// [Config].WholeEvery. Groups is empty then.
	Short bool

	// Completed is the start of the last run that left no work, which can be this one. Zero if
	// there was none.
	Completed time.Time

	// Groups has an entry for each listed group.
	Groups []GroupReport

	// Missed is the number of events that the inbox had not seen, counted per integration.
	Missed int

	// Recovered are the accepted events, in order, without those that arrived meanwhile.
	Recovered []webhook.Key

	// Unchecked is the number of Recovered that may have been accepted before: see
	// [webhook.Receipt].Unchecked.
	Unchecked int

	// Gaps are the missed events that this run did not recover. Later runs retry those with
	// an Err. The others are lost.
	Gaps []Gap

	// Retries is the number of missed events that later runs retry, including those that this
	// run did not try.
	Retries int

	// First reports that the run read events of before the last run, because it was the first
	// one or because an integration is new. Recovered then says nothing about the webhooks.
	First bool

	// NoWebhooks is the time in which the events of the clinic arrived only by reconciliation.
	// It is zero if webhooks arrive.
	NoWebhooks NoWebhooks

	// FailedDeliveries are the webhooks that the platform could not deliver since the last run,
	// the latest first. While the endpoint is disabled, the platform sends none.
	FailedDeliveries []FailedDelivery

	// DeliveryLogErr is the error of the delivery log. The run continues without the log.
	DeliveryLogErr error

	// Pages and Reads are the numbers of calls to the platform: pages of lists, and single
	// events.
	Pages, Reads int
}

// GroupReport is the result of one group of events.
type GroupReport struct {
	Group events.Group

	// Listed is the number of events since the checkpoint, Missed the number that the inbox had
	// not seen for an integration, and Recovered the number of accepted ones.
	Listed, Missed, Recovered int

	// Err is the error that leaves work in the group: that of the list, or of the first event
	// that failed for the first time. The next run continues there.
	Err error
}

// Gap is a missed event, or a span of time with missed events, that was not recovered. The
// platform keeps events for 30 days.
// API section: "Limits".
type Gap struct {
	Group events.Group

	// From and To are the bounds of a span of time that is lost, because the last run was
	// longer ago than the platform keeps events. Both are the time of the event if the gap is
	// a single event.
	From, To time.Time

	// EventID and Type are set for a single event.
	EventID string
	Type    events.Type

	// Err is the reason for a gap that later runs retry. It matches [webhook.ErrInbox] if the
	// inbox rejected the event. Otherwise the platform did not return it. Nil means that the
	// platform no longer has the event, or the events of the span.
	Err error
}

// String returns what is missing, as in "orders from … to …".
func (g Gap) String() string {
	if g.EventID != "" {
		return string(g.Type) + " " + g.EventID + " of " + g.From.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s from %s to %s", g.Group, g.From.UTC().Format(time.RFC3339), g.To.UTC().Format(time.RFC3339))
}

// FailedDelivery is a webhook that the platform could not deliver. However it is
// printed or logged, only type, key, attempts and status are seen.
// API section: "Webhook delivery".
type FailedDelivery struct {
	Key  webhook.Key
	Type events.Type

	// Attempts is how many were made, AttemptedAt when the latest was, and
	// NextAttemptAt when the next will be; zero where there is none.
	Attempts                   int
	AttemptedAt, NextAttemptAt time.Time

	// Status is what the integrator's server answered; 0 where it did not.
	Status int

	// Missed reports that the inbox had not seen the event either, so that it
	// was to be recovered. Others arrived in the end.
	Missed bool

	// Reason is what the platform says went wrong. It may hold an address, and
	// so it is left out of JSON, too: show it to people, and do not log it.
	Reason string `json:"-"`
}

// String returns type, key, attempts and status.
func (d FailedDelivery) String() string {
	return fmt.Sprintf("%s %s: attempt %d: %s", d.Type, d.Key, d.Attempts, statusText(d.Status))
}

// Format prints [FailedDelivery.String] for every verb.
func (d FailedDelivery) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// LogValue logs [FailedDelivery.String].
func (d FailedDelivery) LogValue() slog.Value { return slog.StringValue(d.String()) }

func statusText(status int) string {
	if status == 0 {
		return "no answer"
	}
	return fmt.Sprint("status ", status)
}

// String returns the numbers, as in "recovered 11 of 12 missed; pages: 6, reads:
// 5; gaps: 1; failed deliveries: 7 (6 status 503, 1 no answer)".
func (r Report) String() string {
	if r.Skipped {
		return "skipped: another replica has just done it"
	}
	text := fmt.Sprintf("recovered %d of %d missed; pages: %d, reads: %d", len(r.Recovered), r.Missed, r.Pages, r.Reads)
	if r.Short && r.Missed == 0 {
		text = fmt.Sprintf("short: nothing missed; pages: %d", r.Pages)
	}
	if r.Unchecked > 0 {
		text += fmt.Sprintf("; accepted before, perhaps: %d", r.Unchecked)
	}
	if len(r.Gaps) > 0 {
		text += fmt.Sprintf("; gaps: %d", len(r.Gaps))
	}
	if r.Retries > 0 {
		text += fmt.Sprintf("; retried later: %d", r.Retries)
	}
	if len(r.FailedDeliveries) > 0 {
		text += fmt.Sprintf("; failed deliveries: %d (%s)", len(r.FailedDeliveries), r.reasons())
	}
	return text
}

// reasons counts the failed deliveries by status.
func (r Report) reasons() string {
	counts := map[int]int{}
	for _, failed := range r.FailedDeliveries {
		counts[failed.Status]++
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprint(counts[status], " ", statusText(status)))
	}
	return strings.Join(parts, ", ")
}

// Format prints [Report.String] for every verb.
func (r Report) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue returns the numbers as a group.
func (r Report) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Bool("short", r.Short),
		slog.Int("missed", r.Missed),
		slog.Int("recovered", len(r.Recovered)),
		slog.Int("unchecked", r.Unchecked),
		slog.Int("gaps", len(r.Gaps)),
		slog.Int("retries", r.Retries),
		slog.Int("failed_deliveries", len(r.FailedDeliveries)),
		slog.Int("pages", r.Pages),
		slog.Int("reads", r.Reads),
		slog.Duration("duration", r.Duration),
	}
	if r.NoWebhooks.Counts() {
		attrs = append(attrs, slog.Time("silent_since", r.NoWebhooks.Since), slog.Int("silent_events", r.NoWebhooks.Events))
	}
	if len(r.FailedDeliveries) > 0 {
		attrs = append(attrs, slog.String("failed_deliveries_by_status", r.reasons()))
	}
	return slog.GroupValue(attrs...)
}

// NoWebhooks is a span of time in which the events of a clinic arrived only by reconciliation. It
// ends with the first event that arrives as a webhook. A reason is an endpoint that the platform
// has disabled.
type NoWebhooks struct {
	// Since is the start of the first run that recovered events, and Last that of the last
	// one. Both are zero if webhooks arrive.
	Since time.Time `json:"since,omitzero"`
	Last  time.Time `json:"last,omitzero"`

	// Runs is the number of runs that recovered events, and Events that of the events.
	Runs   int `json:"runs,omitempty"`
	Events int `json:"events,omitempty"`
}

// minRuns is the number of runs in a row after which missing webhooks are reported. One run alone may
// have been faster than a webhook, or than the platform's next attempt.
const minRuns = 2

// Counts reports whether two runs in a row recovered events and no webhook arrived in between.
func (s NoWebhooks) Counts() bool { return s.Runs >= minRuns }
