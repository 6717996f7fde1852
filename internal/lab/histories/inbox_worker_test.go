//go:build unix

package histories_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// Events and calls of each process in a round.
const (
	eventsOfRound = 24
	inboxCalls    = 40
)

// workers is the number of concurrent handlers of a process.
const workers = 4

// riverTakeOver is the time without a heartbeat after which a process with riverinbox counts as
// dead. Another process notices it later. A pause of about riverPause may last longer than both.
const (
	riverTakeOver = time.Second
	riverPause    = 2 * time.Second
)

// inboxPlayer is a process that uses an inbox.
type inboxPlayer struct {
	connections
	name    string
	slow    time.Duration // longest time of a slow handler
	events  int           // number of events per round
	inbox   engine.Engine
	history *history
	calls   atomic.Int64
}

// openInbox opens riverinbox on PostgreSQL and sqlinbox on SQLite.
func openInbox(w worker, h *history) (player, error) {
	p := &inboxPlayer{name: w.Name, slow: riverTakeOver, events: eventsOfRound, history: h}
	ring, err := receivertest.FixedKeyRing()
	if err != nil {
		return nil, err
	}
	work := p.work()
	if strings.HasSuffix(w.Database.Source, ".db") {
		p.slow = 20 * time.Millisecond
		p.inbox, err = sqlinbox.Open(w.Database.Source, sqlinbox.Config{Work: work, Seal: ring})
		return p, err
	}
	config, err := pgxpool.ParseConfig(w.Database.Source)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.ConnConfig.DialFunc = workers+3, p.dial
	for _, m := range riverMutants() {
		if m.Name == w.Mutant {
			config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := p.dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return m.Conn(conn), nil
			}
		}
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	p.inbox, err = riverinbox.Open(context.Background(), pool, riverinbox.Config{
		Work: work, Seal: ring, TakeOver: riverTakeOver, Schema: config.ConnConfig.RuntimeParams["search_path"],
	})
	return p, err
}

// work returns work that records every attempt.
func (p *inboxPlayer) work() webhook.Work {
	return webhook.Work{
		Workers: workers, Handle: p.handle, Order: inLine, Retry: webhook.RetryPolicy{BackOff: 20 * time.Millisecond, MaxBackOff: 20 * time.Millisecond},
		Observer: webhook.Observer{AttemptStart: p.attemptStart, AttemptEnd: p.attemptEnd},
	}
}

// inLine orders every second event after an earlier one.
func inLine(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
	var n int
	if _, err := fmt.Sscanf(d.Key.EventID, "evt_%d", &n); err != nil || n%2 == 0 {
		return ""
	}
	return webhook.OrderingKey(fmt.Sprint("line-", n/4))
}

// attempt is the state of an attempt in its context.
type attempt struct {
	claim, settle string
	ended         func() bool // prevents the record of an ended context
}

type attemptKey struct{}

func (p *inboxPlayer) id() string { return fmt.Sprint(p.name, "-", p.calls.Add(1)) }

func (p *inboxPlayer) attemptStart(ctx context.Context, a webhook.Attempt) context.Context {
	claim := p.id()
	p.history.note(inboxCall{ID: claim, Op: opClaim, Event: a.Key.EventID, Process: p.name, Attempt: a.Number, Call: now()})
	ended := context.AfterFunc(ctx, func() {
		p.history.note(inboxCall{ID: p.id(), Op: opLapse, Event: a.Key.EventID, Claim: claim, Call: now()})
	})
	return context.WithValue(ctx, attemptKey{}, &attempt{claim: claim, ended: ended})
}

// handle handles an event. It is sometimes slow enough for another process to get the event during
// a pause of this one. In one of four attempts it fails, and in another one it makes the event a
// dead letter.
func (p *inboxPlayer) handle(ctx context.Context, _ events.Event) error {
	h := webhook.HandlingFrom(ctx)
	took := rand.N(5 * time.Millisecond)
	if rand.IntN(4) == 0 || h.Attempt > 1 && rand.IntN(2) == 0 {
		took = rand.N(p.slow)
	}
	<-time.After(took)
	result, err := webhook.ResultHandled, error(nil)
	switch rand.IntN(4) {
	case 0:
		result, err = webhook.ResultFailed, errors.New("failed")
	case 1:
		result, err = webhook.ResultDead, webhook.Permanent(errors.New("poison"))
	}
	a := ctx.Value(attemptKey{}).(*attempt)
	a.ended()
	a.settle = p.id()
	p.history.note(inboxCall{ID: a.settle, Op: opSettle, Event: h.Key.EventID, Claim: a.claim, Result: result, Call: now()})
	return err
}

func (p *inboxPlayer) attemptEnd(ctx context.Context, a webhook.Attempt) {
	r := inboxResult{ID: ctx.Value(attemptKey{}).(*attempt).settle, Returned: a.Result == webhook.ResultReturned, Return: now()}
	switch {
	case errors.Is(a.Err, engine.ErrClaimLost):
		r.Err = errClaimLost
	case a.Result == webhook.ResultLost:
		r.Err = errUnknown
	}
	p.history.note(r)
}

// play makes the calls of a round for the events of this and the previous round.
func (p *inboxPlayer) play(_ string, round int, seed uint64) {
	var all sync.WaitGroup
	for g := range uint64(goroutines) {
		random := rand.New(rand.NewPCG(seed, g))
		all.Go(func() {
			for range inboxCalls / goroutines {
				op := []string{opAccept, opAccept, opAccept, opReplay, opDiscard, opList, opList}[random.IntN(7)]
				p.call(op, (round-random.IntN(2))*p.events+random.IntN(p.events), random.IntN(20) == 0)
			}
		})
	}
	all.Wait()
}

// call makes a call for event number n. With hurry, its timeout is less than 5 ms.
func (p *inboxPlayer) call(op string, n int, hurry bool) {
	timeout := 10 * time.Second
	if hurry {
		timeout = rand.N(5 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	d := receivertest.NewDelivery()
	d.Key.EventID, d.Body = fmt.Sprint("evt_", n), receivertest.Body(n, "in_1")
	filter := engine.Filter{Keys: []webhook.Key{d.Key}}
	c := inboxCall{ID: p.id(), Op: op, Event: d.Key.EventID, Call: now()}
	p.history.note(c)
	r := inboxResult{ID: c.ID}
	var err error
	switch op {
	case opAccept:
		var receipt webhook.Receipt
		if receipt, err = p.inbox.Accept(ctx, d); receipt.Duplicate {
			r.N = 1
		}
	case opReplay:
		r.N, err = p.inbox.Replay(ctx, filter)
	case opDiscard:
		r.N, err = p.inbox.Discard(ctx, filter)
	case opList:
		var listed []engine.Event
		listed, err = p.inbox.List(ctx, filter, engine.Page{Limit: 2})
		for _, e := range listed {
			if r.State = string(phaseWaiting); e.State == engine.StateDead {
				r.State = string(phaseDead)
			}
		}
	}
	if r.Return = now(); err != nil {
		r.Err = errUnknown
	}
	p.history.note(r)
}

// drain waits until no event is waiting or running.
func (p *inboxPlayer) drain() {
	for {
		stats, err := p.inbox.Stats(context.Background())
		if err == nil && stats.Waiting+stats.Running == 0 {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}
