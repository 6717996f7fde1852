package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// callKind distinguishes the calls of one user: reading the store is cheap and is
// waited for by callers who do not need a refresh.
type callKind int

const (
	loadCall callKind = iota
	refreshCall
	commitCall  // writing a token pair that the store did not take at first
	clinicCall  // finding out the clinic of a user who connected before it was kept
	revokeCall  // revoking the replaced grants of a record
	disposeCall // revoking a token that is in no record
)

// callKey is what happens once at a time in a process.
type callKey struct {
	key   tokenstore.Key
	kind  callKind
	token api.Secret // of a disposeCall: a user may have several
}

// call is work for one user that any number of callers wait for. It belongs to
// none of them: it runs to its end, no matter who stops waiting.
type call struct {
	seq  uint64 // later calls have greater numbers
	done chan struct{}

	// outdated is set if the user connects again, or is disconnected, while the call runs:
	// its result may be the token from before.
	outdated atomic.Bool

	// failure is why a commitCall was started; it does not change.
	failure error

	// Valid when done is closed.
	record tokenstore.Record
	err    error
}

// callGroup holds the calls under way. A call removes itself at its end.
type callGroup struct {
	mu      sync.Mutex
	seq     uint64
	running map[callKey]*call
}

// errAbandoned is the result of a call whose goroutine was ended by runtime.Goexit.
var errAbandoned = errors.New("tokens: a token refresh ended without a result")

// join returns the call under way for at, or starts work as one; started says
// which. The work gets the values of ctx, but neither its end nor its deadline.
func (g *callGroup) join(ctx context.Context, at callKey, failure error, work func(context.Context) (tokenstore.Record, error)) (c *call, started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.running[at]; ok {
		return c, false
	}
	if g.running == nil {
		g.running = map[callKey]*call{}
	}
	g.seq++
	c = &call{seq: g.seq, done: make(chan struct{}), failure: failure, err: errAbandoned}
	g.running[at] = c
	go g.run(context.WithoutCancel(ctx), at, c, work)
	return c, true
}

func (g *callGroup) run(ctx context.Context, at callKey, c *call, work func(context.Context) (tokenstore.Record, error)) {
	defer func() {
		if v := recover(); v != nil {
			c.record, c.err = tokenstore.Record{}, fmt.Errorf("tokens: token refresh of %s: %w", at.key, panicked(v))
		}
		g.mu.Lock()
		delete(g.running, at)
		g.mu.Unlock()
		close(c.done)
	}()
	c.record, c.err = work(ctx)
}

// outdate marks the calls under way that may return a token of the user from before, and
// returns the number of the last call.
func (g *callGroup) outdate(key tokenstore.Key) (last uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, kind := range []callKind{loadCall, refreshCall} {
		if c, ok := g.running[callKey{key: key, kind: kind}]; ok {
			c.outdated.Store(true)
		}
	}
	return g.seq
}

// underWay returns the call under way for at, or nil.
func (g *callGroup) underWay(at callKey) *call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running[at]
}

// all returns the calls under way, by kind.
func (g *callGroup) all() map[callKind][]*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[callKind][]*call{}
	for at, c := range g.running {
		all[at.kind] = append(all[at.kind], c)
	}
	return all
}

// wait returns the result of the call, or the end of ctx if that comes first.
func (c *call) wait(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	select {
	case <-c.done:
		return c.record, c.err
	case <-ctx.Done():
		return tokenstore.Record{}, fmt.Errorf("tokens: gave up waiting for a token of %s: %w", key, ctx.Err())
	}
}
