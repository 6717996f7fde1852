// Package rotation contains the state of a reconciler's pass over all clinics. A checkpoint
// stores it.
package rotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Rotation is the progress of the pass over all clinics. The zero value is the state before
// the first pass.
type Rotation struct {
	// Began is the start of the current or last pass. Before is the start of the pass before
	// it.
	Began  time.Time `json:"began"`
	Before time.Time `json:"before,omitzero"`

	// After is the last clinic whose turn was taken. Done reports whether it is the last
	// clinic of the pass.
	After string `json:"after,omitempty"`
	Done  bool   `json:"done,omitempty"`

	// Left are clinics of the pass whose turn was taken but not used.
	Left []string `json:"left,omitempty"`

	// Again starts the next pass as soon as this one ends.
	Again bool `json:"again,omitempty"`

	// Taken is the time of the last turns.
	Taken time.Time `json:"taken,omitzero"`
}

// Name returns the name of a rotation's checkpoint. It is unique, because no clinic has an
// empty ID.
func Name(name string) string { return name + "/" }

// Decode reads the state of a checkpoint. An empty state changes nothing.
func (r *Rotation) Decode(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, r) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	return nil
}

// Passing reports whether a pass is in progress.
func (r *Rotation) Passing() bool { return !r.Began.IsZero() && !r.Done }

// Take returns up to limit clinics, or the wait until the next turn. It returns neither at the
// end of a pass.
func (r *Rotation) Take(now time.Time, interval time.Duration, limit int, list func(after string, limit int) ([]string, error)) ([]string, time.Duration, error) {
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
		next = Rotation{Began: now, Before: r.Began}
	}
	next.Taken = now
	ids, err := list(next.After, limit)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		if id <= next.After {
			return nil, 0, fmt.Errorf("clinics must be listed in ascending order: %q is listed after %q", id, next.After)
		}
		next.After = id
	}
	next.Done = len(ids) < limit
	*r = next
	return ids, 0, nil
}
