package riverinbox

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Inbox is a [engine.Engine] on PostgreSQL and River.
type Inbox struct {
	config Config
	worker *engine.Worker
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // inserts jobs
	works  *river.Client[pgx.Tx] // works them, if the inbox owns one
	names  *strings.Replacer
	jobs   river.InsertOpts
	writer *writer
	leases *leases

	claiming, recording *groupCommit  // of workers
	turns               chan struct{} // of workers that are alone at the database

	name   string       // of this process, in claims
	claims atomic.Int64 // that were made

	life  *engine.Lifecycle
	loops sync.WaitGroup
	ended chan struct{} // closed when no handler runs any more
}

var _ interface {
	engine.Engine
	reconcile.Inbox
} = (*Inbox)(nil)

// sql puts the names of the tables into a statement.
func (i *Inbox) sql(statement string) string { return i.names.Replace(statement) }

// newToken returns a text that no other claim has.
func (i *Inbox) newToken() string {
	return i.name + "-" + strconv.FormatInt(i.claims.Add(1), 36)
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "riverinbox.Inbox") }
