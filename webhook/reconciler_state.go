package webhook

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// checkpoint is what a [Reconciler] remembers between its runs.
type checkpoint struct {
	// Integrations are those that everything below holds for.
	Integrations []string `json:"integrations"`

	// Since is where the first run began; what is older is of no concern.
	Since time.Time `json:"since,omitzero"`

	Groups map[EventGroup]progress `json:"groups"`

	// Notices is the latest attempt to deliver a webhook that was looked at.
	Notices time.Time `json:"notices,omitzero"`

	// Completed is when the last run began that left nothing to do.
	Completed time.Time `json:"completed,omitzero"`
}

// progress is how far a group has come.
type progress struct {
	// Through is a time by the platform's clock: of the events that it dates
	// before, all that were listed are in the inbox. It is no time of this
	// machine's clock, because a clock that is wrong is a reason for webhooks to
	// be missed.
	Through time.Time `json:"through,omitzero"`

	// Checked is when everything there was had been seen to.
	Checked time.Time `json:"checked,omitzero"`
}

// read reads what write wrote; nothing is the state before the first run.
func (c *checkpoint) read(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, c) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	if c.Groups == nil {
		c.Groups = map[EventGroup]progress{}
	}
	return nil
}

func (c *checkpoint) write() ([]byte, error) { return json.Marshal(c) }

// begin starts anew if there is an integration that was not looked after before:
// what the others have seen, it may have missed.
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
	c.Notices = time.Time{}
	return true
}

// from returns where a walk through a group may end; zero is the end of the list.
func (c *checkpoint) from(group EventGroup, overlap time.Duration) time.Time {
	p := c.Groups[group]
	if p.Through.IsZero() {
		return c.Since
	}
	return later(c.Since, p.Through.Add(-overlap))
}

// pass notes that everything in a group up to a moment is in the inbox. A date in
// the future must not move the checkpoint there: nothing would be looked at until
// then.
func (c *checkpoint) pass(group EventGroup, at, now time.Time) {
	p := c.Groups[group]
	p.Through = later(p.Through, earlier(at, now))
	c.Groups[group] = p
}

// settle notes how a walk ended.
func (c *checkpoint) settle(w *walk, now time.Time) {
	if !w.stuck.IsZero() {
		c.Groups[w.group] = progress{Through: w.stuck, Checked: w.stuck}
		return
	}
	c.pass(w.group, w.newest, now)
	p := c.Groups[w.group]
	p.Checked = now
	c.Groups[w.group] = p
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
