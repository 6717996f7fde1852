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

// take takes the next turns of the pass, or returns the wait until there is one.
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
	// Clinics without a user are no longer failing.
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

// rotation is the progress of the pass over all clinics.
type rotation struct {
	// Began is the start of the current or last pass, and Before that of the pass before it.
	Began  time.Time `json:"began"`
	Before time.Time `json:"before,omitzero"`

	// After is the last clinic whose turn was taken. Done reports whether it is the last of all.
	After string `json:"after,omitempty"`
	Done  bool   `json:"done,omitempty"`

	// Left are clinics of the pass whose turn was taken and not used.
	Left []string `json:"left,omitempty"`

	// Again starts the next pass when this one is over.
	Again bool `json:"again,omitempty"`

	// Outages counts known outages and times without a reconciling replica. The next run of a
	// clinic is whole if it has had none since the last one. It is not a time, because a wrong
	// clock is a reason for outages.
	Outages int `json:"outages,omitempty"`

	// Taken is the time of the last turns.
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

// stoodStill reports whether no replica has taken a turn for two intervals: all were down, or the
// inbox was restored from a backup.
func (r *rotation) stoodStill(now time.Time, interval time.Duration) bool {
	return !r.Taken.IsZero() && now.Sub(r.Taken) > 2*interval
}

// take takes up to limit turns, or returns the wait until there is one. Neither is the end of a
// pass.
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
