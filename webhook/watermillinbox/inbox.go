package watermillinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/webhook"
)

// Inbox is a [webhook.Engine] of a broker and a store.
type Inbox struct {
	config Config
	worker *webhook.Worker
	store  Store
	clock  *clock
	name   string // of this inbox among all who take leases

	messages chan *message.Message // of all subscriptions
	queue    *queue
	ringing  chan struct{} // one for each message that may be on its way out

	ctx       context.Context // of all handlers
	cancel    context.CancelFunc
	running   context.Context // of everything else; the first to end
	stop      context.CancelFunc
	workers   sync.WaitGroup
	loops     sync.WaitGroup
	closeOnce sync.Once
}

var (
	_ webhook.Engine       = (*Inbox)(nil)
	_ webhook.Reconcilable = (*Inbox)(nil)
)

// New subscribes, and starts to work off what waits. It searches the store and
// fails if there is no answer, and with errors of the subscriber. Close it to end
// it.
func New(ctx context.Context, c Config) (*Inbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	worker, err := webhook.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	i := &Inbox{
		config:   c,
		worker:   worker,
		store:    c.Store,
		clock:    &clock{store: c.Store},
		name:     rand.Text(),
		messages: make(chan *message.Message),
		queue:    newQueue(),
		ringing:  make(chan struct{}, maxRinging),
	}
	// Not ctx: that is for the beginning only.
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.running, i.stop = context.WithCancel(i.ctx)
	// No message may be on its way for what waits already.
	if err := i.sweep(ctx, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("watermillinbox: the store does not answer: %w", err), i.Close(ctx))
	}
	if err := i.subscribe(); err != nil {
		return nil, errors.Join(err, i.Close(ctx))
	}
	for range worker.Work().Workers {
		i.workers.Go(i.work)
	}
	i.loops.Go(i.sweeps)
	i.loops.Go(i.retain)
	return i, nil
}

// Close implements [webhook.Engine]. It closes neither store nor broker: close the
// publisher and the subscriber next, which is what ends the subscriptions, so that
// the broker has messages back that this process has not looked at.
func (i *Inbox) Close(ctx context.Context) error {
	i.closeOnce.Do(func() {
		i.stop()
		i.queue.stop()
		i.loops.Wait()
		i.finish(ctx)
		i.cancel()
	})
	return nil
}

// patience is how long a handler may take to stop once it has been told to.
const patience = 2 * time.Second

// finish waits for the handlers that run. When ctx ends they are told to stop,
// and what does not is left to the end of its lease.
func (i *Inbox) finish(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		i.workers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-ctx.Done():
		i.cancel()
	}
	select {
	case <-ended:
	case <-time.After(patience):
	}
}

// stopped reports that Close has been called.
func (i *Inbox) stopped() bool { return i.running.Err() != nil }

// during returns a context for what is done in the background.
func (i *Inbox) during() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}

// trouble logs what cannot be told to anybody else. Errors of store and broker
// hold nothing of events.
func (i *Inbox) trouble(what string, err error) {
	if !i.stopped() {
		i.worker.Work().Logger.LogAttrs(i.ctx, slog.LevelWarn, "webhook inbox "+what, slog.String("reason", err.Error()))
	}
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "watermillinbox.Inbox") }
