package transport

import (
	"cmp"
	"context"
	"sync"

	"github.com/dispensary-go/dispensary/api"
)

// accountPin is the account of one piece of work: a call, a list, an Ensure call or a pass of
// the reconciler. The first token of the work decides. Only the calls of one client are part
// of the work, because a token source may make other calls with the same context.
type accountPin struct {
	mu      sync.Mutex
	client  *core // nil until a client uses the pin
	account api.Account
}

type accountPinKey struct{}

// OneAccount returns a context for work as one account. Calls of the first client that uses
// the context fail with an [api.AccountChangedError] if its user connects another account.
func OneAccount(ctx context.Context) context.Context { return AsAccount(ctx, api.Account{}) }

// AsAccount returns a context as OneAccount does, for a known account.
func AsAccount(ctx context.Context, account api.Account) context.Context {
	return context.WithValue(ctx, accountPinKey{}, &accountPin{account: account})
}

// OneAccount returns a context for work of c as one account, or ctx if the work is part of
// larger work.
func (c *core) OneAccount(ctx context.Context) context.Context {
	if c.pin(ctx) != nil {
		return ctx
	}
	ctx = OneAccount(ctx)
	c.pin(ctx)
	return ctx
}

// pin returns the pin for calls of c, or nil.
func (c *core) pin(ctx context.Context) *accountPin {
	p, _ := ctx.Value(accountPinKey{}).(*accountPin)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil {
		p.client = c
	}
	if p.client != c {
		return nil
	}
	return p
}

// keep returns an error if the work belongs to another account.
func (p *accountPin) keep(account api.Account) error {
	if account == (api.Account{}) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.account
	if isOther(known.OwnerType, account.OwnerType) || isOther(known.OwnerID, account.OwnerID) || isOther(known.ClinicID, account.ClinicID) {
		return &api.AccountChangedError{Before: known, Now: account}
	}
	p.account = api.Account{
		OwnerType: cmp.Or(known.OwnerType, account.OwnerType), OwnerID: cmp.Or(known.OwnerID, account.OwnerID),
		ClinicID: cmp.Or(known.ClinicID, account.ClinicID),
	}
	return nil
}

// isOther reports whether two known values differ.
func isOther(a, b string) bool { return a != "" && b != "" && a != b }
