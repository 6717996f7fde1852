package riverinbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Inbox is a [engine.Engine] on PostgreSQL and River.
type Inbox struct {
	config Config
	worker *engine.Worker
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // nil: this process only accepts
	name   string                // of this process, as River's client is called
	names  *strings.Replacer

	accepts  *engine.Batcher[*accept]
	outcomes *engine.Batcher[*outcome]
	days     days
	alive    *alive
	adrift   map[try]bool // of the last beat
	others   others
	woken    chan struct{}

	life  *engine.Lifecycle
	loops sync.WaitGroup
	ended chan struct{} // closed when no handler runs any more
}

var _ interface {
	engine.Engine
	reconcile.Inbox
} = (*Inbox)(nil)

// maxAttempts is one more than the policy has: the worker reports with it that the last one was
// lost.
func (i *Inbox) maxAttempts() int { return i.worker.Work().Retry.MaxAttempts + 1 }

// every calls f about every so often, until no handler runs any more. The replicas do not all
// come at the same time.
func (i *Inbox) every(d time.Duration, complaint string, f func(context.Context) error) {
	for {
		timer := time.NewTimer(d - rand.N(d/4))
		select {
		case <-timer.C:
		case <-i.ended:
			timer.Stop()
			return
		}
		i.warn(complaint, f(i.life.Context()))
	}
}

// warn logs an error.
func (i *Inbox) warn(complaint string, err error) {
	if err != nil && i.life.Context().Err() == nil {
		i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelWarn, complaint, slog.String("reason", err.Error()))
	}
}

// Close implements [engine.Engine]. It returns at the latest a few seconds after the end of ctx,
// with its error if the database does not answer.
func (i *Inbox) Close(ctx context.Context) error {
	return i.life.Close(ctx, func() {
		if i.client != nil {
			_ = i.client.Stop(context.Background()) // waits for its jobs, and cannot fail without a context that ends
		}
	}, func() error {
		close(i.ended)
		i.loops.Wait()
		i.outcomes.Close()
		i.accepts.Close()
		return nil
	})
}

// CheckWrite implements [engine.Engine]. It writes a row of the table of checkpoints, which all
// processes share.
func (i *Inbox) CheckWrite(ctx context.Context) error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	_, err := i.exec(ctx, `INSERT INTO {s}.inbox_checkpoints (name, holder, until) VALUES ('write check', '', '-infinity')
		ON CONFLICT (name) DO UPDATE SET until = excluded.until`)
	return err
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "riverinbox.Inbox") }
