package sqlinbox

import (
	"database/sql"
	"fmt"
	"io"
	"sync"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Inbox is a [engine.Engine] in a SQLite database.
type Inbox struct {
	config Config
	worker *inboxkit.Worker
	db     *sql.DB
	files  *files
	writer *writer

	lastNow int64 // what the clock said when the writer claimed last

	life  *inboxkit.Lifecycle
	wake  chan struct{} // there may be something to claim
	slots chan struct{} // one for each handler that may run
	loops sync.WaitGroup

	release []func() error // in the order of their calls, when nothing runs
}

var _ engine.Engine = (*Inbox)(nil)

func (i *Inbox) now() int64 { return i.config.now().UnixMicro() }

// committed wakes the dispatcher if a transaction has made an event ready.
func (i *Inbox) committed(t *tx) {
	if !t.ready {
		return
	}
	select {
	case i.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "sqlinbox.Inbox") }
