//go:build unix

package histories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Size of a round. The number of users is small, so that the calls of different processes collide.
const (
	processes  = 4
	goroutines = 2  // per process
	calls      = 10 // per goroutine
	users      = 3
)

// now returns the time of the machine's monotonic clock. All processes share it, and it is never
// set.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// tokenClient makes the calls of one goroutine.
type tokenClient struct {
	name    string
	round   int
	store   tokenstore.Store
	history *history
	random  *rand.Rand
	calls   int
	leases  map[string]tokenstore.Lease // last lease by user
	seen    map[string]int64            // last seen version by user
}

// history records calls before they are made, and their results afterwards.
type history struct {
	mu  sync.Mutex
	out io.Writer
}

// note writes a line immediately, so that it exists if the process is killed.
func (h *history) note(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.out.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// tokenPlayer makes the calls of a process that uses a token store.
type tokenPlayer struct {
	connections
	store   tokenstore.Store
	history *history
}

func openTokens(w worker, h *history) (player, error) {
	p := &tokenPlayer{history: h}
	db, err := w.Database.open(&p.connections)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(goroutines)
	p.store, err = w.Database.store(db)
	return p, err
}

func (p *tokenPlayer) play(process string, round int, seed uint64) {
	playTokens(p.store, p.history, process, round, seed)
}

func (*tokenPlayer) drain() {}

// playTokens makes all calls of a process in a round.
func playTokens(store tokenstore.Store, h *history, process string, round int, seed uint64) {
	var all sync.WaitGroup
	for g := range goroutines {
		c := &tokenClient{
			name: fmt.Sprintf("%s-%d-%d", process, round, g), round: round, store: store, history: h,
			random: rand.New(rand.NewPCG(seed, uint64(g))), leases: map[string]tokenstore.Lease{}, seen: map[string]int64{},
		}
		all.Go(func() {
			for range calls {
				c.act(fmt.Sprintf("user-%d-%d", round, c.random.IntN(users)))
			}
		})
	}
	all.Wait()
}

func tokenKey(user string) tokenstore.Key {
	return tokenstore.Key{Environment: receivertest.Sandbox, User: user}
}

// epoch is the base of the times of a round. The tokens of each round have different times of
// expiry and use, so that a ClaimDue never returns the users of another round.
var epoch = time.Unix(1_900_000_000, 0)

func (c *tokenClient) token(text string) oauth.Token {
	return oauth.Token{
		Environment: receivertest.Sandbox, AccessToken: api.NewSecret(text), RefreshToken: api.NewSecret("refresh"),
		Lifetime: 100 * time.Second, ExpiresAt: epoch.Add(time.Duration(c.round) * 1000 * time.Second),
		UsedAt: epoch.Add(time.Duration(c.round) * time.Second),
	}
}

// act makes the next call for a user.
func (c *tokenClient) act(user string) {
	c.calls++
	lease, leased := c.leases[user]
	version, known := c.seen[user]
	call := tokenCall{
		ID: fmt.Sprintf("%s-%d", c.name, c.calls), User: user, Version: version,
		TTL: []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, time.Minute}[c.random.IntN(3)].Nanoseconds(),
	}
	switch {
	case leased && c.random.IntN(4) > 0:
		call.Op = c.pick(opCommit, 3, opFail, 1, opRelease, 1, opLease, 1)
		call.Version, call.Owner = lease.Version, lease.Owner
		if c.random.IntN(4) == 0 {
			<-time.After(time.Duration(c.random.IntN(15)) * time.Millisecond) // may be longer than the lease
		}
	case known:
		call.Op = c.pick(opLease, 10, opClaimDue, 3, opLoad, 3, opSave, 1, opDeleteVersion, 2)
		call.Owner = call.ID
	default:
		call.Op = c.pick(opSave, 1, opLoad, 4, opClaimDue, 1)
		call.Owner = call.ID
	}
	switch call.Op {
	case opSave, opCommit:
		call.Token = call.ID
	case opFail:
		call.Token, call.Reason = call.ID, tokenstore.Reason(call.ID)
	}
	c.make(call)
}

// pick returns a random call. weighted contains calls, each followed by its weight.
func (c *tokenClient) pick(weighted ...any) string {
	total := 0
	for n := 1; n < len(weighted); n += 2 {
		total += weighted[n].(int)
	}
	left := c.random.IntN(total)
	for n := 0; ; n += 2 {
		if left -= weighted[n+1].(int); left < 0 {
			return weighted[n].(string)
		}
	}
}

// make makes a call and records its result. One call in twenty has a timeout of less than 3 ms.
func (c *tokenClient) make(call tokenCall) {
	timeout := 10 * time.Second
	if c.random.IntN(20) == 0 {
		timeout = time.Duration(c.random.IntN(3000)) * time.Microsecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	call.Call = now()
	c.history.note(call)
	records, err := c.do(ctx, call)
	r := tokenResult{ID: call.ID, Return: now(), Err: errorName(err)}
	for _, record := range records {
		if call.Op == opClaimDue {
			r.Users, r.Results = append(r.Users, record.Key.User), append(r.Results, resultOf(record))
			continue
		}
		of := resultOf(record)
		r.Version, r.Token, r.State, r.Reason = of.Version, of.Token, of.State, of.Reason
	}
	c.history.note(r)
	c.learn(call, records, err)
}

func resultOf(r tokenstore.Record) tokenResult {
	return tokenResult{Version: r.Version, Token: r.Token.AccessToken.Reveal(), State: r.State, Reason: r.Reason}
}

func errorName(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, tokenstore.ErrNoRecord):
		return errNoRecord
	case errors.Is(err, tokenstore.ErrConflict):
		return errConflict
	case errors.Is(err, tokenstore.ErrLeased):
		return errLeased
	}
	return errUnknown
}

// do calls the store.
func (c *tokenClient) do(ctx context.Context, call tokenCall) ([]tokenstore.Record, error) {
	key, ttl := tokenKey(call.User), time.Duration(call.TTL)
	lease := tokenstore.Lease{Key: key, Version: call.Version, Owner: call.Owner}
	var r tokenstore.Record
	var err error
	switch call.Op {
	case opLoad:
		r, err = c.store.Load(ctx, key)
	case opSave:
		r, err = c.store.Save(ctx, key, c.token(call.Token))
	case opDeleteVersion:
		return nil, c.store.DeleteVersion(ctx, key, call.Version)
	case opLease:
		r, err = c.store.Lease(ctx, lease, ttl)
	case opCommit:
		r, err = c.store.Commit(ctx, lease, c.token(call.Token))
	case opFail:
		r, err = c.store.Fail(ctx, lease, c.token(call.Token), call.Reason)
	case opRelease:
		return nil, c.store.Release(ctx, lease)
	case opClaimDue:
		of := c.token("")
		return c.store.ClaimDue(ctx, tokenstore.Due{
			Environment: key.Environment, Before: of.ExpiresAt, UsedSince: of.UsedAt, Limit: 2, Owner: call.Owner, TTL: ttl,
		})
	}
	if err != nil {
		return nil, err
	}
	return []tokenstore.Record{r}, nil
}

// learn updates the known version and lease of a user from the result of a call, like a program.
// Sometimes it keeps a lease that has ended.
func (c *tokenClient) learn(call tokenCall, records []tokenstore.Record, err error) {
	for _, r := range records {
		c.seen[r.Key.User] = r.Version
		if call.Op == opLease || call.Op == opClaimDue {
			c.leases[r.Key.User] = tokenstore.Lease{Key: r.Key, Version: r.Version, Owner: call.Owner}
		}
	}
	if ended := call.Op == opCommit || call.Op == opFail || call.Op == opRelease; ended && c.random.IntN(5) > 0 {
		delete(c.leases, call.User)
	}
	if errors.Is(err, tokenstore.ErrConflict) || errors.Is(err, tokenstore.ErrNoRecord) {
		delete(c.seen, call.User)
		if c.random.IntN(3) > 0 {
			delete(c.leases, call.User)
		}
	}
}
