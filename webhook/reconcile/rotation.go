package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// take takes the next turns of the pass, or returns how long there is none to take.
func (c *Clinics) take(ctx context.Context, interval time.Duration) (time.Duration, error) {
	select {
	case <-c.trigger:
		c.again = true
	default:
	}
	var ids []string
	var wait time.Duration
	unlisted := func(string) bool { return false }
	r, err := c.update(ctx, func(ctx context.Context, r *rotation) (err error) {
		now := c.config.Now()
		r.Again = r.Again || c.again
		if c.again || r.stoodStill(now, interval) {
			r.Outages++
		}
		ids, wait, err = r.take(now, interval, c.config.Parallel, func(after string, limit int) ([]string, error) {
			page, err := safecall.Value(func() ([]string, error) { return c.config.List(ctx, after, limit) })
			unlisted = func(id string) bool {
				return id > after && (len(page) < limit || id <= page[len(page)-1]) && !slices.Contains(page, id)
			}
			return page, err
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	c.again = false
	for _, id := range ids {
		c.turns = append(c.turns, turn{id, r.Began, r.Outages})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rotation = r
	// Whose last user has left is not tried again, and holds up nothing.
	maps.DeleteFunc(c.failing, func(id string, _ *FailingClinic) bool { return unlisted(id) })
	return wait, nil
}

// giveBack returns the turns that the end of the loop has left, for another replica or the next
// start. If that fails, these clinics have their next turn in the next pass.
func (c *Clinics) giveBack() {
	c.mu.Lock()
	left := c.left
	c.left = nil
	c.mu.Unlock()
	for _, one := range c.turns {
		left = append(left, one.clinicID)
	}
	c.turns = nil
	if len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	for {
		_, err := c.update(ctx, func(_ context.Context, r *rotation) error {
			r.Left = append(r.Left, left...)
			return nil
		})
		if !errors.Is(err, ErrCheckpointHeld) {
			return
		}
		select { // another replica takes turns, for a moment
		case <-time.After(closing / 20):
		case <-ctx.Done():
			return
		}
	}
}

// update changes the rotation while no other replica does.
func (c *Clinics) update(ctx context.Context, change func(context.Context, *rotation) error) (r rotation, err error) {
	ctx, lease, err := claim(ctx, &c.config, rotationName(c.config.Name))
	if err != nil {
		return r, err
	}
	defer lease.release()
	if err := r.decode(lease.state); err != nil {
		return r, err
	}
	if err := change(ctx, &r); err != nil {
		return r, err
	}
	state, err := json.Marshal(r)
	if err != nil || bytes.Equal(state, lease.state) {
		return r, err
	}
	return r, lease.save(ctx, state)
}

// rotation is how far the pass over all clinics has come.
type rotation struct {
	// Began is when the pass began that is under way, or was the last one, and Before
	// when the one before it did.
	Began  time.Time `json:"began"`
	Before time.Time `json:"before,omitzero"`

	// After is the last clinic whose turn was taken, and Done that it is the last of all.
	After string `json:"after,omitempty"`
	Done  bool   `json:"done,omitempty"`

	// Left are clinics of the pass whose turn was taken, and not used.
	Left []string `json:"left,omitempty"`

	// Again has the next pass begin when this one is over.
	Again bool `json:"again,omitempty"`

	// Outages counts the outages: those that were seen, and the times in which no replica
	// reconciled. A clinic that has had no whole run since the last one has it next. It is a
	// number, and no time, as a clock that is wrong is a reason for outages.
	Outages int `json:"outages,omitempty"`

	// Taken is when the last turns were.
	Taken time.Time `json:"taken,omitzero"`
}

// rotationName returns the name of the checkpoint of a rotation: no clinic has an empty ID.
func rotationName(name string) string { return name + "/" }

func (r *rotation) decode(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, r) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	return nil
}

// passing reports whether a pass is under way.
func (r *rotation) passing() bool { return !r.Began.IsZero() && !r.Done }

// stoodStill reports that no replica has taken a turn for so long that all were down, or the
// inbox is another one: restored from a backup, for example.
func (r *rotation) stoodStill(now time.Time, interval time.Duration) bool {
	return !r.Taken.IsZero() && now.Sub(r.Taken) > 2*interval
}

// take takes the next turns, at most limit of them, or returns how long there is none. No
// turn and no wait is the end of a pass.
func (r *rotation) take(now time.Time, interval time.Duration, limit int, list func(after string, limit int) ([]string, error)) ([]string, time.Duration, error) {
	if len(r.Left) > 0 {
		ids := r.Left
		r.Left, r.Taken = nil, now
		return ids, 0, nil
	}
	if since := now.Sub(r.Began); r.Done && !r.Again && since >= 0 && since < interval {
		return nil, interval - since, nil
	}
	next := *r
	if r.Done || r.Began.IsZero() {
		next = rotation{Began: now, Before: r.Began, Outages: r.Outages}
	}
	next.Taken = now
	ids, err := list(next.After, limit)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		if id <= next.After {
			return nil, 0, fmt.Errorf("clinic %q is listed after %q", id, next.After)
		}
		next.After = id
	}
	next.Done = len(ids) < limit
	*r = next
	return ids, 0, nil
}
