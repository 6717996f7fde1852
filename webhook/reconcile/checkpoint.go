package reconcile

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// checkpoint is what [Clinics] remembers between its runs.
type checkpoint struct {
	// Integrations are those that everything below holds for.
	Integrations []string `json:"integrations"`

	// Asked is when they were asked for.
	Asked time.Time `json:"asked,omitzero"`

	// Since is where the first run began; older events do not matter.
	Since time.Time `json:"since,omitzero"`

	Groups map[Group]progress `json:"groups"`

	// Retries are events that no run could recover so far. Through is past them.
	Retries []retry `json:"retries,omitempty"`

	// Deliveries is the latest failed attempt to deliver a webhook that was looked
	// at.
	Deliveries time.Time `json:"deliveries,omitzero"`

	// Completed is when the last run began that left nothing to do.
	Completed time.Time `json:"completed,omitzero"`

	// Whole is when the last whole run began. It is zero if that left something to do, or a
	// gap, and if a run has failed since.
	Whole time.Time `json:"whole,omitzero"`

	// NoWebhooks is the time since which no webhook has arrived.
	NoWebhooks NoWebhooks `json:"no_webhooks,omitzero"`

	// Outages is how many outages a whole run has come after; see rotation.
	Outages int `json:"outages,omitempty"`
}

// progress is how far a group has come.
type progress struct {
	// Through is a time by the platform's clock: of the events that it dates
	// before, all that were listed are in the inbox or in Retries. It is not a time of this
	// machine's clock, because a clock that is wrong is a reason for webhooks to
	// be missed.
	Through time.Time `json:"through,omitzero"`

	// Checked is when everything there was had been looked at.
	Checked time.Time `json:"checked,omitzero"`
}

// decode reads what encode wrote; no bytes are the state before the first run.
func (c *checkpoint) decode(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, c) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	if c.Groups == nil {
		c.Groups = map[Group]progress{}
	}
	return nil
}

func (c *checkpoint) encode() ([]byte, error) { return json.Marshal(c) }

// begin starts from the beginning if there is an integration that the checkpoint
// does not cover: what the others have seen, it may have missed.
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
	c.Deliveries, c.Whole = time.Time{}, time.Time{}
	return true
}

// from returns where the listing of a group may end; zero is the end of the list.
func (c *checkpoint) from(group Group, overlap time.Duration) time.Time {
	p := c.Groups[group]
	if p.Through.IsZero() {
		return c.Since
	}
	return later(c.Since, p.Through.Add(-overlap))
}

// advance records that everything in a group up to a time is in the inbox.
func (c *checkpoint) advance(group Group, at, now time.Time) {
	p := c.Groups[group]
	p.Through = newest(p.Through, at, now)
	c.Groups[group] = p
}

// newest returns the later of two times, but ignores at if it is in the future. The checkpoint
// cannot move there, because nothing would be read until then. It cannot move to now either,
// because the clock of this machine may be fast.
func newest(known, at, now time.Time) time.Time {
	if at.After(now) {
		return known
	}
	return later(known, at)
}

// complete records that a group was listed to its end and recovered.
func (c *checkpoint) complete(group Group, newest, now time.Time) {
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
