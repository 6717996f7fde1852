package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// rotation is the progress of the pass over all clinics. The zero value is the state before
// the first pass.
type rotation struct {
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

// rotationName returns the name of a rotation's checkpoint. It is unique, because no clinic has an
// empty ID.
func rotationName(name string) string { return name + "/" }

// decode reads the state of a checkpoint. An empty state changes nothing.
func (r *rotation) decode(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, r) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	return nil
}

// passing reports whether a pass is in progress.
func (r *rotation) passing() bool { return !r.Began.IsZero() && !r.Done }

// take returns up to limit clinics, or the wait until the next turn. It returns neither at the
// end of a pass.
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
		next = rotation{Began: now, Before: r.Began}
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

// CheckpointReader reads checkpoints. The engines of this module implement it.
type CheckpointReader interface {
	// ReadCheckpoint returns the last saved state of a checkpoint, or nil.
	ReadCheckpoint(ctx context.Context, name string) (state []byte, err error)
}

// ReadPass returns when the newest pass over the clinics of an environment began, and when clinics
// last had their turn in it. Both times are zero if no [Clinics.Loop] has run. Unlike
// [Clinics.Stats], it needs no Clinics, so it serves other programs. Errors are those of inbox, and an
// error if another program uses the checkpoint.
func ReadPass(ctx context.Context, inbox CheckpointReader, environment api.Environment) (began, lastTurn time.Time, err error) {
	var r rotation
	state, err := inbox.ReadCheckpoint(ctx, rotationName(environment.String()))
	if err == nil {
		err = r.decode(state)
	}
	return r.Began, r.Taken, err
}
