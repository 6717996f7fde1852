package transport

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// callState is the state of one call that the links share: the request and the last response.
type callState struct {
	client   *Client
	call     Call
	settings hidden.CallSettings
	observed *observation // nil without observers

	requestCtx   context.Context // the parent context of every attempt
	built        outgoing
	request      *http.Request // of the next attempt
	bearer       [1]string     // the first Authorization header
	pin          *accountPin   // the account of the call: account, or the one of larger work
	account      accountPin
	missingScope *api.ScopeError // the scope that the token lacks, or nil

	attempts int
	attempt  *attemptContext // of the last attempt
	first    attemptContext
	wait     time.Duration // before the next attempt
	began    time.Time     // of the last attempt
	trace    connectionTrace
	last     lastResponse // of the last attempt
}

// step is a link together with all links after it.
type step func(ctx context.Context, s *callState) error

// apply applies the options of a call to settings. A nil option changes nothing.
func (c *Call) apply(settings *hidden.CallSettings) {
	for _, option := range c.Options {
		if option != nil {
			option(settings)
		}
	}
}

// setPractitioner sets the query of a call to one practitioner, see [hidden.CallSettings].
func (c *Call) setPractitioner(id string) {
	if !c.ForPractitioner {
		c.wrong = append(slices.Clip(c.wrong), c.invalid("practitioner_id", "is not a parameter of this call"))
		return
	}
	c.Query = url.Values{"practitioner_id": {id}}
}

// newCallState starts a call and returns its context.
func newCallState(ctx context.Context, c *Client, call Call) (context.Context, *callState) {
	s := &callState{client: c, call: call}
	s.call.apply(&s.settings)
	if id := s.settings.PractitionerID; id != "" {
		s.call.setPractitioner(id)
	}
	if observers := c.config.Observers; len(observers) > 0 {
		op := call.Operation
		ctx, s.observed = observeCall(ctx, observers, observe.Call{
			Operation: op.Name, Method: op.Method, Route: op.Route, Environment: c.config.Site.Environment, Host: c.base.Host,
		})
	}
	return ctx, s
}

// release ends the call and returns the buffer of the response to the pool.
func (s *callState) release() {
	s.observed.callEnd(&s.last, s.attempts)
	s.last.release()
}

// prepareRequest is the link that builds the request. It checks the arguments before the
// client fetches a token or sends a request.
func prepareRequest(ctx context.Context, s *callState, next step) error {
	s.requestCtx = ctx
	if !s.call.Operation.Read() {
		// Only a write needs to know whether a connection was ever made, because a failed read
		// is repeated in any case.
		s.requestCtx = httptrace.WithClientTrace(ctx, s.trace.hooks())
	}
	var err error
	s.first.Context, s.attempt = s.requestCtx, &s.first
	if s.request, err = s.built.build(&s.first, &s.client.endpoint, &s.call); err != nil {
		return err
	}
	return next(ctx, s)
}

// captureResponse is the link that stores the headers of the response for
// [api.CaptureResponse].
func captureResponse(ctx context.Context, s *callState, next step) error {
	err := next(ctx, s)
	for _, response := range s.settings.Captures {
		*response = hidden.Response(s.response())
	}
	return err
}

// response describes the last response.
func (s *callState) response() api.Response {
	return api.Response{StatusCode: s.last.status, Header: s.last.header, RequestID: s.last.requestID(), Attempts: s.attempts}
}

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
