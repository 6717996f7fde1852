package watermillinbox_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// patched is a store in which things go wrong when a test wants it.
type patched struct {
	watermillinbox.Store

	mu     sync.Mutex
	before func(op, key string) error // asked about each entry
	single bool                       // entries are created one by one, as in NATS
	silent string                     // what is done once and not answered
}

var (
	errDead = errors.New("this process is dead")
	errDown = errors.New("the store is down")
)

// Die ends the process that has this store.
func (p *patched) Die() { p.patch(func(string, string) error { return errDead }) }

// patch has before decide from now on.
func (p *patched) patch(before func(op, key string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = before
}

// answerless has the next operation of a kind, on an event, done and not answered.
func (p *patched) answerless(op string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = op
}

// answer is the answer to an operation that was done.
func (p *patched) answer(op string, err error, entries ...watermillinbox.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		if op == p.silent && strings.HasPrefix(e.Key, "kept.event.") {
			p.silent = ""
			return errDown
		}
	}
	return err
}

// failing fails whatever is done to entries whose keys begin with prefix.
func failing(op, prefix string) func(string, string) error {
	return func(done, key string) error {
		if done == op && strings.HasPrefix(key, prefix) {
			return errDown
		}
		return nil
	}
}

func (p *patched) ask(op string, keys ...string) error {
	p.mu.Lock()
	before := p.before
	p.mu.Unlock()
	if before == nil {
		return nil
	}
	for _, key := range keys {
		if err := before(op, key); err != nil {
			return err
		}
	}
	return nil
}

func (p *patched) Create(ctx context.Context, entries ...watermillinbox.Entry) (revisions []uint64, err error) {
	if !p.single {
		var keys []string
		for _, e := range entries {
			keys = append(keys, e.Key)
		}
		if err := p.ask("create", keys...); err != nil {
			return nil, err
		}
		revisions, err := p.Store.Create(ctx, entries...)
		return revisions, p.answer("create", err, entries...)
	}
	for _, e := range entries {
		if err := p.ask("create", e.Key); err != nil {
			return nil, err
		}
		some, failed := p.Store.Create(ctx, e)
		if failed != nil {
			err = failed
		}
		revisions = append(revisions, some...)
	}
	return revisions, err
}

func (p *patched) Get(ctx context.Context, keys ...string) (map[string]watermillinbox.Entry, error) {
	if err := p.ask("get", keys...); err != nil {
		return nil, err
	}
	return p.Store.Get(ctx, keys...)
}

func (p *patched) Update(ctx context.Context, e watermillinbox.Entry) (uint64, error) {
	if err := p.ask("update", e.Key); err != nil {
		return 0, err
	}
	revision, err := p.Store.Update(ctx, e)
	return revision, p.answer("update", err, e)
}

func (p *patched) Delete(ctx context.Context, entries ...watermillinbox.Entry) error {
	for _, e := range entries {
		if err := p.ask("delete", e.Key); err != nil {
			return err
		}
	}
	return p.Store.Delete(ctx, entries...)
}

func (p *patched) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if err := p.ask("list", prefix); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return p.Store.List(ctx, prefix)
}
