package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// Attempt is one attempt of a [MemoryInbox] to handle an event. It prints as its
// [Delivery] does.
type Attempt struct {
	Delivery

	// Number counts from 1, and from 1 again after a replay.
	Number int

	// Err is what the handler returned, or a [*PanicError]; nil if the event is
	// handled. It may repeat patient data if the handler's errors do.
	Err error

	// RetryIn is the wait until the next attempt; 0 if there is none: the event
	// is handled, or with an Err a dead letter.
	RetryIn time.Duration

	// Duration is how long the handler took.
	Duration time.Duration
}

// work is the life of a worker. A handler that ends its goroutine, as a failed
// test assertion does, takes the worker along; another one takes its place.
func (m *MemoryInbox) work() {
	ended := false
	defer func() {
		if !ended {
			m.workers.Go(m.work)
		}
	}()
	for m.ctx.Err() == nil {
		select {
		case <-m.ctx.Done():
		case e := <-m.ready:
			m.attempt(e)
		}
	}
	ended = true
}

// attempt runs the handler once.
func (m *MemoryInbox) attempt(e *entry) {
	ctx, cancel := context.WithTimeout(m.ctx, m.config.HandlerTimeout)
	defer cancel()
	start := time.Now()
	protect(func() error {
		event, err := e.delivery.Event()
		if err != nil {
			return err
		}
		return m.config.Handle(ctx, event)
	}, func(err error) {
		a := m.settle(e, err)
		a.Duration = time.Since(start)
		m.observe(ctx, a)
	})
}

// settle decides what follows from an attempt.
func (m *MemoryInbox) settle(e *entry, err error) Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.attempts++
	a := Attempt{Delivery: e.delivery, Number: e.attempts, Err: err}
	switch {
	case err == nil:
		m.alive--
		m.release(e)
	case e.attempts >= m.config.MaxAttempts:
		m.alive--
		e.death = &DeadLetter{Delivery: e.delivery, Attempts: e.attempts, Err: err, DiedAt: time.Now()}
	default:
		a.RetryIn = m.wait(e.attempts)
		if m.ctx.Err() == nil {
			e.retry = time.AfterFunc(a.RetryIn, func() { m.ready <- e })
		}
	}
	m.checkIdle()
	return a
}

// wait returns the time until the next attempt. It is spread at random, so that
// events that failed together do not come back together.
func (m *MemoryInbox) wait(attempts int) time.Duration {
	d := m.config.BackOff
	for i := 1; i < attempts && d < m.config.MaxBackOff; i++ {
		d *= 2
	}
	d = min(d, m.config.MaxBackOff)
	return d - rand.N(d/2+1)
}

// observe logs an attempt and tells the observer.
func (m *MemoryInbox) observe(ctx context.Context, a Attempt) {
	level, outcome := a.outcome()
	attrs := []slog.Attr{
		slog.String("outcome", outcome),
		slog.String("event_id", a.Key.EventID),
		slog.String("event_type", string(a.Type)),
		slog.Int("attempt", a.Number),
		slog.Duration("duration", a.Duration),
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("reason", reason(a.Err)))
	}
	if a.RetryIn > 0 {
		attrs = append(attrs, slog.Duration("retry_in", a.RetryIn))
	}
	if p := (*PanicError)(nil); errors.As(a.Err, &p) {
		attrs = append(attrs, slog.String("stack", p.Stack()))
	}
	m.config.Logger.LogAttrs(ctx, level, "webhook event "+outcome, attrs...)
	if m.config.Observe != nil {
		shield(ctx, m.config.Logger, func() { m.config.Observe(ctx, a) })
	}
}

func (a Attempt) outcome() (slog.Level, string) {
	switch {
	case a.Err == nil:
		return slog.LevelInfo, "handled"
	case a.RetryIn > 0:
		return slog.LevelWarn, "failed"
	}
	return slog.LevelError, "dead"
}

// reason describes an error without its text, which a handler may have put
// patient data into. The errors of this module hold none and are quoted.
func reason(err error) string {
	var data *events.DataError
	var call *api.Error
	var caught *PanicError
	switch {
	case errors.As(err, &data):
		return data.Error()
	case errors.As(err, &call):
		return call.Error()
	case errors.As(err, &caught):
		return caught.Error()
	case errors.Is(err, events.ErrMalformed), errors.Is(err, events.ErrNoEvent),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err.Error()
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Sprintf("error of type %T", err)
}
