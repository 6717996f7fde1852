package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// turn is that of one clinic in a pass.
type turn struct {
	clinicID string
	since    time.Time // a clinic that was reconciled since then is done
	outages  int       // until then; see rotation
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

// CheckpointReader reads checkpoints beside the processes that claim them. Engines on a database
// implement it.
type CheckpointReader interface {
	// ReadCheckpoint returns the state that was saved last, nil if there is none. It claims
	// nothing.
	ReadCheckpoint(ctx context.Context, name string) (state []byte, err error)
}

// Status is the progress of [Clinics.Loop] over the clinics of an environment, by any replica.
type Status struct {
	// PassBegan is the start of the current or last pass, and Passing reports whether a pass
	// is under way. PassBegan is zero if there was none.
	PassBegan time.Time
	Passing   bool

	// Taken is the last time at which a replica took clinics to reconcile. Zero if none has.
	Taken time.Time
}

// ReadStatus returns the progress of the loop of a [Config].Name, which is the name of the
// environment by default. It is for tools beside the program: see [Clinics.Stats] in it. Errors
// are those of the reader.
func ReadStatus(ctx context.Context, from CheckpointReader, name string) (Status, error) {
	state, err := from.ReadCheckpoint(ctx, rotationName(name))
	if err != nil {
		return Status{}, err
	}
	var r rotation
	if err := r.decode(state); err != nil {
		return Status{}, err
	}
	return Status{PassBegan: r.Began, Passing: r.passing(), Taken: r.Taken}, nil
}
