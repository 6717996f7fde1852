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

	dispatcher *dispatcher

	life  *inboxkit.Lifecycle
	loops sync.WaitGroup

	release []func() error // called in this order once all work has ended
}

var _ engine.Engine = (*Inbox)(nil)

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

// micros returns the current time as the tables store it.
func (c *Config) micros() int64 { return c.now().UnixMicro() }

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
