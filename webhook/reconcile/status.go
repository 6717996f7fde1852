package reconcile

import (
	"context"
	"time"
)

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
