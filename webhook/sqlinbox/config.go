package sqlinbox

import (
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// DefaultRetention is how long the keys of handled events are kept: a day more
// than the 30 days for which the platform keeps events, so that nothing it can
// still send or list is taken for new.
const DefaultRetention = 31 * 24 * time.Hour

// minRetention is what the platform can repeat.
const minRetention = 30 * 24 * time.Hour

// leaseMargin is how much longer than its time-out a handler may take before its
// event is taken for abandoned: a handler that has been told to stop needs a
// moment for it.
const leaseMargin = 30 * time.Second

// stopPatience is how long a handler may take to stop once it has been told to,
// and the writer after that.
const stopPatience = 2 * time.Second

// Config is what an [Inbox] is made of. Work.Handle and Seal are required.
type Config struct {
	// Work says how events are handled.
	Work webhook.Work

	// Seal seals the bodies of events. [seal.InsecurePlaintext] is the way to
	// have them readable.
	Seal seal.AEAD

	// Retention is how long the keys of handled and discarded events are kept
	// to recognise duplicates; 0 means [DefaultRetention], less than 30 days is
	// refused.
	Retention time.Duration

	// now, margin and patience are for tests.
	now              func() time.Time
	margin, patience time.Duration
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Seal == nil:
		return c, errors.New("sqlinbox: Seal is missing: bodies hold patient data")
	case c.Retention == 0:
		c.Retention = DefaultRetention
	case c.Retention < minRetention:
		return c, errors.New("sqlinbox: Retention is shorter than the 30 days in which the platform can repeat an event")
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.margin == 0 {
		c.margin = leaseMargin
	}
	if c.patience == 0 {
		c.patience = stopPatience
	}
	return c, nil
}

// What an inbox can fail with, beside errors of the database.
var (
	// ErrInUse: another process, or another Inbox of this one, has the database
	// open. It is safe to try again.
	ErrInUse = errors.New("sqlinbox: another process has this inbox open")

	// ErrFull: there is no room for another event, as the rest of it is needed
	// to work off those that are there. [Inbox.Accept] returns it.
	ErrFull = errors.New("sqlinbox: the disk is full, or nearly so")

	// ErrSchema: the tables are missing, or older than this package: call
	// [Migrate].
	ErrSchema = errors.New("sqlinbox: tables are missing or outdated: call Migrate")

	// ErrNewerSchema: the tables were made by a newer version of this package,
	// which knows things that this one would destroy.
	ErrNewerSchema = errors.New("sqlinbox: tables were made by a newer version")
)

// errClaimLost: the event was handed to someone else, because its handler took
// far longer than its time-out.
var errClaimLost = errors.New("sqlinbox: the event was taken for abandoned and given to another worker")
