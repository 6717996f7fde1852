package reconcile

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// checkpoint is the state of a clinic between runs.
type checkpoint struct {
	// Integrations are the integrations that the checkpoint covers. Asked is the time of the
	// last call for them.
	Integrations []string  `json:"integrations"`
	Asked        time.Time `json:"asked,omitzero"`

	// Since is the start of the first run. Runs ignore older events.
	Since time.Time `json:"since,omitzero"`

	Groups map[events.Group]progress `json:"groups"`

	// Retries are the events that no run has recovered so far. Through is past them.
	Retries []retry `json:"retries,omitempty"`

	// Deliveries is the time of the latest failed attempt that a run has read.
	Deliveries time.Time `json:"deliveries,omitzero"`

	// Completed is the start of the last run that left no work.
	Completed time.Time `json:"completed,omitzero"`

	NoWebhooks NoWebhooks `json:"no_webhooks,omitzero"`
}

// retry is a missed event that the platform did not return or the inbox rejected. The
// checkpoint stores it and moves on, so it blocks no other event. Every run retries it.
type retry struct {
	ID       string       `json:"id"`
	Type     events.Type  `json:"type,omitempty"`
	ClinicID string       `json:"clinic,omitempty"`
	Group    events.Group `json:"group,omitempty"`

	// At is the time of the event, zero if it has none. Since is the time of its first
	// failure.
	At    time.Time `json:"at,omitzero"`
	Since time.Time `json:"since"`

	// Integrations are the integrations that missed the event.
	Integrations []string `json:"integrations"`

	// Failures is the number of runs that failed to recover it.
	Failures int `json:"failures"`
}

// progress is the progress of a group.
type progress struct {
	// Through is a time by the platform's clock, because the clock of this machine can be
	// wrong. All listed events before it are in the inbox or in Retries.
	Through time.Time `json:"through,omitzero"`

	// Checked is the start of the last complete read of the list.
	Checked time.Time `json:"checked,omitzero"`
}

// decode reads the result of encode. An empty state is the state before the first run.
func (c *checkpoint) decode(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, c) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	if c.Groups == nil {
		c.Groups = map[events.Group]progress{}
	}
	return nil
}

func (c *checkpoint) encode() ([]byte, error) { return json.Marshal(c) }

// began returns the time of the event, for its age. It returns Since if the event has no time
// or a later one.
func (e *retry) began() time.Time {
	if e.At.IsZero() {
		return e.Since
	}
	return earlier(e.At, e.Since)
}

// retry returns the retry of an event, or nil.
func (c *checkpoint) retry(id string) *retry {
	for i := range c.Retries {
		if c.Retries[i].ID == id {
			return &c.Retries[i]
		}
	}
	return nil
}

// removeRetry removes the retry of an event, if there is one.
func (c *checkpoint) removeRetry(id string) {
	c.Retries = slices.DeleteFunc(c.Retries, func(e retry) bool { return e.ID == id })
}

// maxRetries is the maximum size of the retries of a checkpoint in bytes. If an event does not
// fit, Through of its group stays before it.
const maxRetries = 40 << 10

// addRetry stores a retry, and reports whether it fits.
func (c *checkpoint) addRetry(e retry) bool {
	retries := append(slices.Clone(c.Retries), e)
	encoded, err := json.Marshal(retries)
	if err != nil || len(encoded) > maxRetries {
		return false
	}
	c.Retries = retries
	return true
}

// begin restarts the checkpoint if it does not cover an integration, because this integration
// may have missed events that the others have seen.
func (c *checkpoint) begin(integrations []string, now time.Time, firstRun time.Duration) (restart bool) {
	first := len(c.Integrations) == 0
	for _, id := range integrations {
		restart = restart || !slices.Contains(c.Integrations, id)
	}
	c.Integrations = integrations
	if !restart {
		return false
	}
	var since time.Time
	if firstRun > 0 {
		since = now.Add(-firstRun)
	}
	if first || since.Before(c.Since) {
		c.Since = since
	}
	for group, p := range c.Groups {
		c.Groups[group] = progress{Checked: p.Checked}
	}
	c.Deliveries = time.Time{}
	return true
}

// from returns the time at which the listing of a group may end. Zero means the end of the
// list.
func (c *checkpoint) from(group events.Group, overlap time.Duration) time.Time {
	p := c.Groups[group]
	if p.Through.IsZero() {
		return c.Since
	}
	return later(c.Since, p.Through.Add(-overlap))
}

// advance records that the inbox has all events of a group up to a time.
func (c *checkpoint) advance(group events.Group, at, now time.Time) {
	p := c.Groups[group]
	p.Through = newest(p.Through, at, now)
	c.Groups[group] = p
}

// newest returns the later of two times, but ignores at if it is in the future. The checkpoint
// must not move there, because nothing would be read until then. It must not move to now
// either, because the clock of this machine may be fast.
func newest(known, at, now time.Time) time.Time {
	if at.After(now) {
		return known
	}
	return later(known, at)
}

// complete records a group whose list was read to its end, with all its events recovered.
func (c *checkpoint) complete(group events.Group, newest, now time.Time) {
	c.advance(group, newest, now)
	p := c.Groups[group]
	p.Checked = now
	c.Groups[group] = p
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// arrivals is the evidence of a run about the webhooks of its clinic. All times are of events.
type arrivals struct {
	webhook   time.Time // the newest arrived event
	recovered time.Time // the newest recovered event
	events    int       // number of recovered events
}

// addWebhook records a listed event that had arrived. An event is evidence only if it is newer than
// the last run over its group, because that run has recovered older ones.
func (a *arrivals) addWebhook(e events.Event, last progress, now time.Time) {
	if at := e.CreatedAt.Time; !last.Checked.IsZero() && at.After(last.Through) {
		a.webhook = newest(a.webhook, at, now)
	}
}

// after returns the span after a run.
func (s NoWebhooks) after(a arrivals, now time.Time) NoWebhooks {
	switch {
	case a.events > 0 && !a.webhook.After(a.recovered):
		if s.Runs == 0 {
			s.Since = now
		}
		s.Runs, s.Events = s.Runs+1, s.Events+a.events
	case !a.webhook.IsZero():
		return NoWebhooks{}
	}
	return s
}
