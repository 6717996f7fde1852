package sqlinbox

import (
	"cmp"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config configures an [Inbox]. Work.Handle and Seal are required.
type Config struct {
	// Work configures the handling of events.
	Work webhook.Work

	// Seal encrypts the bodies of events. [seal.InsecurePlaintext] does not encrypt.
	Seal seal.AEAD

	// MinFreeBytes is the smallest free space of the disk with which the inbox accepts
	// events. With less, Accept and CheckWrite fail with [ErrFull], and events in the inbox
	// are still handled. Unused pages of the database count as free, up to half of
	// MinFreeBytes. The log of a burst needs some of this space, so values below 16 MiB are
	// for tests. 0 means [DefaultMinFreeBytes], a negative value disables the check. The free
	// space is known on Linux, macOS, FreeBSD and Windows. Other systems have no check.
	MinFreeBytes int64

	// The other fields are for tests.
	now              func() time.Time
	margin, patience time.Duration
	free             func(folder string) (bytes int64, known bool)
}

func (c Config) withDefaults() (Config, error) {
	if c.Seal == nil {
		return c, &api.ArgumentError{Field: "sqlinbox.Config.Seal", Reason: "is missing: bodies hold patient data"}
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

// Errors of an inbox, beside those of the database.
var (
	// ErrInUse: another Inbox, of this process or another one, has the database open. It is
	// safe to retry.
	ErrInUse = errors.New("sqlinbox: another process has this inbox open")

	// ErrReplaced: the database, its log or its lock file was moved, removed or replaced
	// while the inbox was open, so that the next start would not find what is written now.
	// Every method fails with it from then on, except Close. Restart the process.
	ErrReplaced = sqlitefile.ErrReplaced

	// ErrUnsafePath: the database has several hard links, or is mounted alone, as with
	// "docker run -v ./inbox.db:/data/inbox.db", so that its log would stay behind. Mount
	// the folder. [Open], [New] and [OpenReader] return it.
	ErrUnsafePath = sqlitefile.ErrUnsafePath

	// ErrFull: the disk has less free space than [Config.MinFreeBytes], or PRAGMA
	// max_page_count leaves too few pages. The message contains the folder and the free
	// space. [Inbox.Accept] and [Inbox.CheckWrite] return it.
	ErrFull = errors.New("sqlinbox: disk almost full")
)
