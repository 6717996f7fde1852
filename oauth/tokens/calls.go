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

// callKind distinguishes the calls of one user. Callers that need no refresh wait only for the
// read of the store.
type callKind int

const (
	loadCall callKind = iota
	refreshCall
	commitCall  // writes a token pair after a failure of the store
	clinicCall  // finds the clinic of a user whose record has none
	revokeCall  // revokes the replaced grants of a record
	disposeCall // revokes a token that is in no record
)

// callKey identifies a call. A process runs one call at a time for each key.
type callKey struct {
	key   tokenstore.Key
	kind  callKind
	token api.Secret // set for a disposeCall, because a user can have several
}

// call is work for one user. Any number of callers can wait for it. It runs to its end even if
// all of them stop waiting.
type call struct {
	seq  uint64 // increases with each call
	done chan struct{}

	// outdated is set if the user reconnects or is disconnected while the call runs. The result
	// may then be the old token.
	outdated atomic.Bool

	// failure is the error that led to a commitCall. It does not change.
	failure error

	// Valid once done is closed.
	record tokenstore.Record
	err    error
}

// callGroup contains the running calls. A call removes itself when it ends.
type callGroup struct {
	mu      sync.Mutex
	seq     uint64
	running map[callKey]*call
}

// errAbandoned is the result of a call whose goroutine ended with runtime.Goexit.
var errAbandoned = errors.New("tokens: a token refresh ended without a result")

// join returns the running call for at, or starts work as a new call. started reports whether
// it did. The work gets the values of ctx, but not its cancellation or deadline.
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

// outdate marks the running calls that may return an old token of the user. It returns the
// number of the last call.
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

// underWay returns the running call for at, or nil.
func (g *callGroup) underWay(at callKey) *call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running[at]
}

// all returns the running calls by kind.
func (g *callGroup) all() map[callKind][]*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[callKind][]*call{}
	for at, c := range g.running {
		all[at.kind] = append(all[at.kind], c)
	}
	return all
}

// wait returns the result of the call, or an error if ctx ends first.
func (c *call) wait(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	select {
	case <-c.done:
		return c.record, c.err
	case <-ctx.Done():
		return tokenstore.Record{}, fmt.Errorf("tokens: stopped waiting for a token of %s: %w", key, ctx.Err())
	}
}
