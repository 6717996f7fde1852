package sqlinbox

import (
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
)

// dispatch claims events for free handlers.
func (i *Inbox) dispatch() {
	failures := 0
	for i.takeSlot() {
		n := 1 + i.takeFreeSlots()
		claims, next, err := i.claim(n)
		for range n - len(claims) {
			i.slots <- struct{}{}
		}
		for _, c := range claims {
			i.life.Go(func() { i.handle(c) })
		}
		switch {
		case errors.Is(err, webhook.ErrInboxClosed), errors.Is(err, api.ErrReplaced):
			return
		case err != nil:
			failures++
			next = min(time.Duration(failures)*100*time.Millisecond, 5*time.Second)
			i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelError, "webhook inbox cannot claim", slog.String("reason", err.Error()))
		case len(claims) == n:
			failures = 0
			continue // more events may be due
		default:
			failures = 0
		}
		timer := time.NewTimer(next)
		select {
		case <-i.wake:
		case <-timer.C:
		case <-i.life.Stopping():
		}
		timer.Stop()
	}
}

// takeSlot waits for a free handler. It returns false if the inbox closes.
func (i *Inbox) takeSlot() bool {
	select {
	case <-i.slots:
		if !i.life.Stopped() {
			return true
		}
		i.slots <- struct{}{}
	case <-i.life.Stopping():
	}
	return false
}

func (i *Inbox) takeFreeSlots() (n int) {
	for {
		select {
		case <-i.slots:
			n++
		default:
			return n
		}
	}
}

// handle makes the attempt of a claim, and of the next claim returned with each outcome.
func (i *Inbox) handle(c *claim) {
	for c != nil {
		c = i.attempt(c)
	}
	i.slots <- struct{}{}
}

// attempt makes the attempt of a claim, and returns the next claim. If the inbox is closing,
// it returns the event to the queue instead.
func (i *Inbox) attempt(c *claim) (next *claim) {
	task := i.task(c)
	if i.life.Stopped() {
		_, _ = i.recordWithRetry(c, webhook.Attempt{Delivery: task.Delivery, Result: webhook.ResultReturned})
		return nil
	}
	ctx, done := inboxkit.WithTransaction(i.life.Context(), task, i.inTransaction(c))
	// The error has been logged, and the event is due again when its claim expires.
	_ = i.worker.Do(ctx, task, func(a webhook.Attempt) (err error) {
		if !done() {
			next, err = i.recordWithRetry(c, a)
		}
		return err
	})
	return next
}
