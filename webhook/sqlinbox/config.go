package sqlinbox

import (
	"cmp"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config configures an [Inbox]. Work.Handle and Seal are required.
type Config struct {
	// Work configures the handling of events.
	Work webhook.Work

	// Seal encrypts the bodies of events. [seal.InsecurePlaintext] does not encrypt.
	Seal seal.AEAD

	// MinFreeBytes is the minimum free space of the disk for accepting events. With less,
	// Accept and CheckWrite fail with [ErrFull], and events in the inbox are still handled.
	// Unused pages of the database count as free, up to half of MinFreeBytes. The log of a
	// burst needs some of this space, so values below 16 MiB are for tests. 0 means 64 MiB, a
	// negative value disables the check. Only Linux, macOS, FreeBSD and Windows report the
	// free space. Other systems have no check.
	MinFreeBytes int64

	// The other fields are for tests.
	now              func() time.Time
	margin, patience time.Duration
	free             func(folder string) (bytes int64, known bool)
}

func (c Config) withDefaults() (Config, error) {
	if c.Seal == nil {
		return c, &api.ArgumentError{Field: "sqlinbox.Config.Seal", Reason: "is required, because bodies contain patient data"}
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.free == nil {
		c.free = freeBytes
	}
	c.margin = cmp.Or(c.margin, inboxkit.LeaseMargin)
	return c, nil
}

// Errors of an inbox, besides those of the database.
var (
	// ErrInUse: another Inbox, in this process or another one, has opened the database. It is
	// safe to retry.
	ErrInUse = errors.New("sqlinbox: inbox is open in another process")

	// ErrFull: the disk has less free space than [Config.MinFreeBytes], or PRAGMA
	// max_page_count leaves too few pages. The message contains the folder and the free
	// space. [Inbox.Accept] and [Inbox.CheckWrite] return it.
	ErrFull = errors.New("sqlinbox: disk almost full")
)
