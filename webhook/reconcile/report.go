package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Report is the result of one run of [Clinics]. Its printed and logged forms contain numbers only.
type Report struct {
	// Name is the name of the checkpoint: the environment and the clinic ID.
	Name string

	// Started is the start of the run, by [Config].Now.
	Started  time.Time
	Duration time.Duration

	// Skipped reports whether the run did nothing, because another replica had just
	// reconciled the clinic.
	Skipped bool

	// Completed is the start of the last run without remaining work, possibly this one. Zero
	// if there was none.
	Completed time.Time

	// Groups has an entry for each listed group.
	Groups []GroupReport

	// Missed is the number of events that the inbox had not seen, counted per integration.
	Missed int

	// Recovered are the accepted events, in order, without events that arrived during the run.
	Recovered []webhook.Key

	// Unchecked is the number of Recovered that may have been accepted before: see
	// [webhook.Receipt].Unchecked.
	Unchecked int

	// Gaps are the missed events that this run did not recover. Later runs retry gaps with an
	// Err. The others are lost.
	Gaps []Gap

	// Retries is the number of missed events for later runs, including events that this run
	// did not try.
	Retries int

	// First reports whether the run read events from before the last run, because it was the
	// first one or an integration is new. Recovered is then no evidence about the webhooks.
	First bool

	// NoWebhooks is the time in which the events of the clinic arrived only by reconciliation.
	// It is zero if webhooks arrive.
	NoWebhooks NoWebhooks

	// FailedDeliveries are the undelivered webhooks since the last run, latest first. While
	// the endpoint is disabled, the platform sends none.
	FailedDeliveries []FailedDelivery

	// DeliveryLogErr is the error of the delivery log. The run continues without the log.
	DeliveryLogErr error

	// Pages is the number of calls for pages of lists. Reads is the number of calls for single
	// events.
	Pages, Reads int
}

// GroupReport is the result of one group of events.
type GroupReport struct {
	Group events.Group

	// Listed is the number of events since the checkpoint. Missed is the number of events that
	// the inbox had not seen for an integration, and Recovered the number of accepted ones.
	Listed, Missed, Recovered int

	// Err is the reason for remaining work in the group. It is the error of the list, or of
	// the first event that failed for the first time. The next run continues there.
	Err error
}

// Gap is a missed event, or a span of time with missed events, that was not recovered. The
// platform keeps events for 30 days. API section: "Limits".
type Gap struct {
	Group events.Group

	// From and To are the bounds of a lost span of time. A span is lost if the last run was
	// longer ago than the platform keeps events. For a single event, both are the time of the
	// event.
	From, To time.Time

	// EventID and Type are set for a single event.
	EventID string
	Type    events.Type

	// Err is the reason for a gap that later runs retry. It matches [webhook.ErrInbox] if the
	// inbox rejected the event. Otherwise the platform did not return it. Nil means that the
	// platform no longer has the event, or the events of the span.
	Err error
}

// String returns a description, as in "orders from … to …".
func (g Gap) String() string {
	if g.EventID != "" {
		return string(g.Type) + " " + g.EventID + " of " + g.From.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s from %s to %s", g.Group, g.From.UTC().Format(time.RFC3339), g.To.UTC().Format(time.RFC3339))
}

// FailedDelivery is a webhook that the platform could not deliver. Its printed and logged
// forms contain only the type, key, attempts and status. API section: "Webhook delivery".
type FailedDelivery struct {
	Key  webhook.Key
	Type events.Type

	// Attempts is the number of attempts, AttemptedAt the time of the latest one, and
	// NextAttemptAt the time of the next one. Each is zero if there is none.
	Attempts                   int
	AttemptedAt, NextAttemptAt time.Time

	// Status is the HTTP status of your endpoint's response, or 0 if there was none.
	Status int

	// Missed reports whether the inbox had not seen the event either, so the run had to
	// recover it. Other events arrived in the end.
	Missed bool

	// Reason is the platform's description of the failure. It may contain a host or URL, so
	// JSON leaves it out. Show it to users, but do not log it.
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
		return "no response"
	}
	return fmt.Sprint("status ", status)
}

// String returns the numbers, as in "recovered 11 of 12 missed; pages: 6, reads: 5; gaps: 1;
// failed deliveries: 7 (6 status 503, 1 no response)".
func (r Report) String() string {
	if r.Skipped {
		return "skipped: another replica has just reconciled the clinic"
	}
	text := fmt.Sprintf("recovered %d of %d missed; pages: %d, reads: %d", len(r.Recovered), r.Missed, r.Pages, r.Reads)
	if r.Unchecked > 0 {
		text += fmt.Sprintf("; possibly accepted before: %d", r.Unchecked)
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
		attrs = append(attrs, slog.Time("no_webhooks_since", r.NoWebhooks.Since), slog.Int("no_webhooks_events", r.NoWebhooks.Events))
	}
	if len(r.FailedDeliveries) > 0 {
		attrs = append(attrs, slog.String("failed_deliveries_by_status", r.reasons()))
	}
	return slog.GroupValue(attrs...)
}

// NoWebhooks is a span of time in which the events of a clinic arrived only by reconciliation.
// It ends with the first event that arrives as a webhook. A possible reason is a disabled
// endpoint.
type NoWebhooks struct {
	// Since is the start of the first run that recovered events. It is zero if webhooks arrive.
	Since time.Time `json:"since,omitzero"`

	// Runs is the number of runs that recovered events. Events is the number of these events.
	Runs   int `json:"runs,omitempty"`
	Events int `json:"events,omitempty"`
}

// minRuns is the number of consecutive runs after which missing webhooks are reported. A
// single run may have been faster than a webhook, or than the platform's next attempt.
const minRuns = 2

// Counts reports whether two consecutive runs recovered events and no webhook arrived in
// between.
func (s NoWebhooks) Counts() bool { return s.Runs >= minRuns }

// log logs a run. disconnected reports whether the last run failed because no user of the
// clinic is connected.
func (r Report) log(ctx context.Context, logger *slog.Logger, err error, disconnected bool) {
	level, message := r.summary()
	attrs := []slog.Attr{slog.String("name", r.Name), slog.Any("report", r)}
	if err != nil {
		level, message = failure(ctx, err, disconnected)
		attrs = append(attrs, slog.String("reason", err.Error()))
	}
	if len(r.Gaps) > 0 {
		attrs = append(attrs, slog.String("first_gap", r.Gaps[0].String()))
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}

// summary returns the level and the message of a run without an error.
func (r Report) summary() (slog.Level, string) {
	const message = "webhook events reconciled"
	switch {
	case r.Skipped:
		return slog.LevelDebug, message
	case r.NoWebhooks.Counts():
		return slog.LevelWarn, message + ": webhooks do not arrive, events come only by reconciliation"
	case !r.First && len(r.Recovered) > r.Unchecked:
		return slog.LevelWarn, message + ": some had not arrived as webhooks"
	case len(r.Gaps) > 0 || r.Retries > 0:
		return slog.LevelWarn, message + ": some could not be recovered"
	}
	return slog.LevelInfo, message
}

// failure returns the level and the message of a run that failed. The end of ctx is no failure:
// it interrupts runs at each deployment, and another replica or the next start resumes them.
func failure(ctx context.Context, err error, disconnected bool) (slog.Level, string) {
	const message = "webhook events not reconciled"
	switch {
	case ctx.Err() != nil:
		return slog.LevelInfo, message + ": interrupted"
	case errors.Is(err, engine.ErrCheckpointHeld):
		return slog.LevelDebug, message
	case errors.Is(err, api.ErrReauthorize) && disconnected:
		return slog.LevelDebug, message + ": no user of the clinic is connected"
	case errors.Is(err, api.ErrReauthorize):
		return slog.LevelWarn, message + ": no user of the clinic is connected"
	}
	return slog.LevelError, message
}
