package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// lease is the claim of one run on the checkpoint. A goroutine extends it, because a call to
// the platform may take longer than the claim.
type lease struct {
	config *Config
	name   string // of the checkpoint
	holder string
	ended  chan struct{} // closed when the goroutine has stopped
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	state []byte // the saved state, or the state to save with the next extension
}

// closing is the longest time for storing state after the end of a run's context. It lets a
// program stop within seconds.
const closing = 2 * time.Second

// outlive returns a context for storing state at the end of a run. If ctx has ended, it lasts for
// closing.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), closing)
}

// errReleased ends the context of a run that is over.
var errReleased = errors.New("reconcile: the run is over")

// claim claims the checkpoint, and returns a context that ends if the claim is lost. Each run
// has its own holder, so that a process does not reconcile a clinic twice at the same time.
func claim(ctx context.Context, c *Config, name string) (context.Context, *lease, error) {
	l := &lease{config: c, name: name, holder: rand.Text(), ended: make(chan struct{})}
	now := time.Now()
	state, err := c.Inbox.ClaimCheckpoint(ctx, name, l.holder, leaseTTL)
	if err != nil {
		return nil, nil, err
	}
	l.state = state
	ctx, l.cancel = context.WithCancelCause(ctx)
	go l.renew(ctx, now)
	return ctx, l, nil
}

// renew extends the claim until the run is over. It ends the run if another replica has
// claimed the checkpoint or may have.
func (l *lease) renew(ctx context.Context, renewed time.Time) {
	defer close(l.ended)
	ticker := time.NewTicker(leaseTTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		l.mu.Lock()
		err := l.write(ctx)
		l.mu.Unlock()
		switch {
		case err == nil:
			renewed = now
		case errors.Is(err, engine.ErrCheckpointHeld):
			l.cancel(err)
			return
		case time.Since(renewed) >= leaseTTL:
			l.cancel(fmt.Errorf("%w, or the claim has expired: %w", engine.ErrCheckpointHeld, err))
			return
		}
	}
}

// save stores the state and extends the claim.
func (l *lease) save(ctx context.Context, state []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	return l.write(ctx)
}

// write saves l.state. The caller has locked l.mu.
func (l *lease) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTTL/3)
	defer cancel()
	return l.config.Inbox.SaveCheckpoint(ctx, l.name, l.holder, l.state, leaseTTL)
}

// release releases the claim, also if the context of the run has ended.
func (l *lease) release() {
	l.cancel(errReleased)
	<-l.ended
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	// The claim expires if this fails.
	_ = l.config.Inbox.ReleaseCheckpoint(ctx, l.name, l.holder)
}
