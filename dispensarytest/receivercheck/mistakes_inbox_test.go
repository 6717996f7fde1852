package receivercheck_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

type acceptFunc = func(context.Context, webhook.Delivery) (webhook.Receipt, error)

// noKeys makes every event a new one.
func noKeys(s *subject) acceptFunc {
	var numbers atomic.Int64
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		d.Key.EventID += "#" + strconv.FormatInt(numbers.Add(1), 10)
		return s.Accept(ctx, d)
	}
}

// checkThenAct looks first, and stores then. Those who look at the same time
// wait for each other, so that they certainly do.
func checkThenAct(s *subject) acceptFunc {
	var known sync.Map
	meet := make(chan struct{})
	act := noKeys(s)
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if _, ok := known.Load(d.Key); ok {
			return webhook.Receipt{Duplicate: true}, nil
		}
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-time.After(2 * time.Second):
		}
		receipt, err := act(ctx, d)
		known.Store(d.Key, true)
		return receipt, err
	}
}

func byEventID(s *subject) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		d.Key.IntegrationID = ""
		return s.Accept(ctx, d)
	}
}

func regardless(s *subject) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		_, _ = s.Accept(ctx, d) // the mistake
		return webhook.Receipt{}, nil
	}
}

// inside handles events before they are acknowledged.
func inside(s *subject) acceptFunc {
	var known sync.Map
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if _, ok := known.LoadOrStore(d.Key, true); ok {
			return webhook.Receipt{Duplicate: true}, nil
		}
		event, err := d.Event()
		if err != nil {
			return webhook.Receipt{}, err
		}
		return webhook.Receipt{}, s.handle(ctx, event)
	}
}

// dropping acknowledges what there is no room for.
func dropping(s *subject) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if !s.gate.TryRLock() {
			return webhook.Receipt{}, nil
		}
		s.gate.RUnlock()
		return s.Accept(ctx, d)
	}
}

// lateAgain handles an event once more when eight others have come.
func lateAgain(s *subject) acceptFunc {
	var mu sync.Mutex
	var before []webhook.Delivery
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		receipt, err := s.Accept(ctx, d)
		if receipt.Duplicate || err != nil {
			return receipt, err
		}
		mu.Lock()
		defer mu.Unlock()
		if before = append(before, d); len(before) > 8 {
			again := before[0]
			again.Key.EventID += "#again"
			before = before[1:]
			_, err = s.Accept(ctx, again)
		}
		return receipt, err
	}
}
