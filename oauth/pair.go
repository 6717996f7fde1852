package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// pair is what a refresh returned, until the store has it. The token before it
// may be dead already, so that losing it would log the user out.
type pair struct {
	client *Client
	slot   slot
	lease  Lease
	old    Record // before the refresh
	token  Token

	background bool // nobody asked for it

	problem error         // of the first write
	done    chan struct{} // closed when the pair is settled

	// Valid when done is closed.
	record Record
	err    error
}

// Waits between tries to write a pair.
const (
	firstRewrite = 100 * time.Millisecond
	lastRewrite  = 30 * time.Second
)

// commit writes a new pair and returns its record. A pair that cannot be
// written is kept and tried again until it is; it is not handed out before,
// because its first use may kill the pair that the store still has.
func (l *leased) commit(ctx context.Context, token Token) (Record, error) {
	p := &pair{
		client: l.client, slot: l.slot, lease: l.lease, old: l.old, token: token, done: make(chan struct{}),
		background: l.claim != nil,
	}
	if p.background {
		p.token.UsedAt = l.old.Token.UsedAt
	}
	// A connection that is dead must not take the whole lease.
	record, err := p.write(ctx, l.client.answerTime())
	if !unwritten(err) {
		return record, err
	}
	p.problem = err
	l.client.unwritten.keep(p)
	l.client.notify(ctx, Unwritten{Key: p.slot.key, Err: err})
	go p.persist(ctx)
	return p.wait()
}

// settle waits for a pair that an earlier renewal could not write. It returns
// an empty record if there is none.
func (r *renewal) settle() (Record, error) {
	if p := r.client.unwritten.of(r.slot); p != nil {
		return p.wait()
	}
	return Record{}, nil
}

// wait gives the pair a while to be written: longer where the store is slow than
// where it fails.
func (p *pair) wait() (Record, error) {
	patience := p.client.answerTime()
	if errors.Is(p.problem, context.DeadlineExceeded) {
		patience = storeTime
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.record, p.err
	case <-timer.C:
		return Record{}, p.problem
	}
}

// unwritten reports that the store failed, so that writing has to go on.
func unwritten(err error) bool {
	var problem *StoreError
	return errors.As(err, &problem)
}

// persist writes until the pair is stored, or not wanted any more.
func (p *pair) persist(ctx context.Context) {
	err := p.problem
	for try := 1; unwritten(err); try++ {
		wait := backoff(try, firstRewrite, lastRewrite)
		p.client.log(ctx, slog.LevelError, "a refreshed token pair is not stored and only kept in memory", p.slot.key,
			slog.Any("error", err), slog.Int("try", try), slog.Duration("next_in", wait))
		time.Sleep(wait)
		p.record, err = p.write(ctx, storeTime)
	}
	p.err = err
	p.client.log(ctx, slog.LevelInfo, "a kept token pair is settled", p.slot.key)
	p.client.cooling.clear(p.slot)
	p.client.unwritten.drop(p)
	close(p.done)
}

// maxConflicts bounds how often in a row a write starts over.
const maxConflicts = 3

// write tries to store the pair. A record that has moved in the meantime keeps
// what it has, unless it still waits for this very pair. A store that panics
// has not taken the pair either.
func (p *pair) write(ctx context.Context, limit time.Duration) (record Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			record, err = Record{}, storeError("Commit", p.slot.key, panicked(v))
		}
	}()
	for range maxConflicts {
		record, err = p.slot.store.Commit(ctx, p.lease, p.token)
		if err == nil {
			p.client.log(ctx, slog.LevelDebug, "token refreshed", p.slot.key, slog.Int64("version", record.Version))
			p.client.breaker.refreshed(p.client.config.Breaker)
			if p.old.State != StateActive {
				p.client.notify(ctx, Restored{Key: p.slot.key})
			}
			p.client.notify(ctx, Refreshed{Key: p.slot.key, ExpiresAt: record.Token.ExpiresAt, Background: p.background})
			return record, nil
		}
		if !isContention(err) {
			return Record{}, storeError("Commit", p.slot.key, err)
		}
		if record, err = p.client.read(ctx, p.slot); err != nil {
			return Record{}, err // a user who was deleted meanwhile stays deleted
		}
		if !p.succeeds(record) {
			return record, p.client.vet(record)
		}
		p.lease.Version, p.old.State = record.Version, record.State
		_, err = p.slot.store.Lease(ctx, p.lease, p.client.config.LeaseTTL)
		if err != nil && !errors.Is(err, ErrConflict) {
			break // a peer is at it with the old token: its result decides
		}
	}
	return Record{}, storeError("Commit", p.slot.key, err)
}

// succeeds reports a record that the pair is the successor of: it holds the
// refresh token that the pair was bought with, and no newer access token. A
// peer that came after the lease had ended may have marked it, because that
// refresh token was spent on this pair; then the pair brings the user back.
func (p *pair) succeeds(record Record) bool {
	return record.Token.RefreshToken == p.old.Token.RefreshToken &&
		(record.State != StateActive || record.Token.AccessToken == p.old.Token.AccessToken)
}

// pairs holds the pairs that could not be written yet.
type pairs struct {
	mu   sync.Mutex
	kept map[slot]*pair
}

func (u *pairs) keep(p *pair) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kept == nil {
		u.kept = map[slot]*pair{}
	}
	u.kept[p.slot] = p
}

func (u *pairs) drop(p *pair) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.kept, p.slot)
}

func (u *pairs) of(at slot) *pair {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.kept[at]
}

func (u *pairs) underWay() []<-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []<-chan struct{}
	for _, p := range u.kept {
		all = append(all, p.done)
	}
	return all
}

// Unwritten counts the refreshed token pairs that the store does not take and
// that live in this process only. It is 0 in a healthy program: let a health
// check look at it, and do not end the process while it is not.
func (c *Client) Unwritten() int { return len(c.unwritten.underWay()) }

// Shutdown waits until no refresh is under way and every new token pair is
// stored. Call it before the program ends, after the last call was made. If ctx
// ends first it returns an error that matches ctx's and tells what is open.
func (c *Client) Shutdown(ctx context.Context) error {
	for {
		open := append(c.flights.underWay(), c.unwritten.underWay()...)
		if len(open) == 0 {
			return nil
		}
		select {
		case <-open[0]:
		case <-ctx.Done():
			return fmt.Errorf("dispensary: shut down with %d token refreshes open and %d token pairs not stored: %w",
				len(c.flights.underWay()), c.Unwritten(), ctx.Err())
		}
	}
}
