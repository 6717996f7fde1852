package sqlinbox

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// Inbox implements [engine.Engine] in a SQLite database.
type Inbox struct {
	config Config
	worker *inboxkit.Worker
	db     *sql.DB
	files  *files
	writer *writer

	lastNow  int64    // time of the writer's last claim; maxTime before the first one
	outcomes sync.Map // the claims whose outcomes are being stored, see claim.id

	life  *inboxkit.Lifecycle
	wake  chan struct{} // an event may be due
	slots chan struct{} // one per free handler
	loops sync.WaitGroup

	release []func() error // called in this order once all work has ended
}

var _ engine.Engine = (*Inbox)(nil)

func (i *Inbox) now() int64 { return i.config.now().UnixMicro() }

// committed wakes the dispatcher if a transaction has made an event ready.
func (i *Inbox) committed(t *tx) {
	i.lastNow = cmp.Or(t.now, i.lastNow)
	if !t.ready {
		return
	}
	select {
	case i.wake <- struct{}{}:
	default: // the dispatcher is awake already
	}
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "sqlinbox.Inbox") }

// Config configures an [Inbox]. Work.Handle and Seal are required.
type Config struct {
	// Work configures the handling of events.
	Work webhook.Work

	// Seal encrypts the bodies of events. [seal.InsecurePlaintext] does not encrypt.
	Seal seal.AEAD

	// The other fields are for tests.
	now              func() time.Time
	margin, patience time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Seal == nil {
		return c, &api.ArgumentError{Field: "sqlinbox.Config.Seal", Reason: "is required, because bodies contain patient data"}
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.margin = cmp.Or(c.margin, inboxkit.LeaseMargin)
	return c, nil
}

// ErrInUse is the error of [Open] and [New] if another Inbox, in this process or another one, has
// opened the database. It is safe to retry.
var ErrInUse = errors.New("sqlinbox: inbox is open in another process")
