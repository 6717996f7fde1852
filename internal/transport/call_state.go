package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// lastResponse is the last response to a call.
type lastResponse struct {
	status   int         // 0 without a response
	header   http.Header // nil without a response
	body     *bytes.Buffer
	complete bool // body contains the complete response body

	tried   bool  // reading the body was attempted
	readErr error // error that interrupted reading

	limited io.LimitedReader
}

// reset clears the response and keeps its buffer.
func (a *lastResponse) reset() {
	a.status, a.header, a.complete, a.tried, a.readErr = 0, nil, false, false, nil
}

// maxBody is the size limit of a successful response in bytes, after decompression.
const maxBody = 32 << 20

// maxSmallBody is the size limit of error bodies and token responses in bytes. They are short.
// Only a list may be larger.
const maxSmallBody = 1 << 20

// read reads a response to its end, so a body that breaks off is retried like a broken
// connection. It drops the rest of an error body beyond maxSmallBody. The status still counts,
// but the response no longer proves that the platform wrote it.
func (a *lastResponse) read(response *http.Response, limit int64) error {
	a.tried, a.readErr = true, a.readBody(response, limit)
	return a.readErr
}

func (a *lastResponse) readBody(response *http.Response, limit int64) error {
	defer func() { _ = response.Body.Close() }()
	a.status, a.header = response.StatusCode, response.Header
	if a.body == nil {
		a.body = buffers.Get().(*bytes.Buffer)
	}
	a.body.Reset()
	if !a.success() {
		limit = min(limit, maxSmallBody)
	}
	if n := min(response.ContentLength, limit, maxPooledBuffer); n > 0 { // a larger Content-Length may be wrong
		a.body.Grow(int(n) + bytes.MinRead) // ReadFrom needs MinRead free bytes to detect the end
	}
	a.limited = io.LimitedReader{R: response.Body, N: limit + 1}
	_, err := a.body.ReadFrom(&a.limited)
	a.limited.R = nil
	switch {
	case err != nil:
		return fmt.Errorf("read body: %w", err) // wrapped, because the deadline may not be the caller's
	case int64(a.body.Len()) > limit && a.success():
		return errTooLarge
	case int64(a.body.Len()) > limit:
		a.body.Truncate(int(limit))
		return nil
	}
	if bytes.HasPrefix(a.body.Bytes(), []byte(ByteOrderMark)) {
		a.body.Next(len(ByteOrderMark))
	}
	a.complete = true
	return nil
}

// ByteOrderMark is a prefix that some gateways add to JSON. RFC 8259 allows readers to ignore
// it.
const ByteOrderMark = "\ufeff"

// errTooLarge is the error for a response beyond its limit.
var errTooLarge = errors.New("response is larger than the limit")

func (a *lastResponse) success() bool { return a.status >= 200 && a.status <= 299 }

func (a *lastResponse) requestID() string { return RequestID(a.header) }

// buffers contains buffers for responses during decoding. A list of 100 products has about 100
// KB. Growing a new buffer to this size costs more than decoding into a reused one.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBuffer is the size in bytes of the largest buffer to keep, so one huge response
// does not occupy memory permanently.
const maxPooledBuffer = 1 << 20

// release returns the buffer to the pool. No decoded value may refer to it.
func (a *lastResponse) release() {
	if a.body != nil && a.body.Cap() <= maxPooledBuffer {
		buffers.Put(a.body)
	}
	a.body = nil
}

// fromPlatform reports whether the platform itself provably wrote the response. This function
// alone decides which responses the client trusts.
//
// A proxy, a gateway that stops waiting, a firewall or a sign-in page can respond with any
// status in place of the platform, while the platform continues processing. There are two
// proofs:
//
//   - The response has an X-Request-Id, which the API promises on every response, and its body
//     is a JSON object. A JSON object alone proves nothing, because gateways write JSON too. A
//     success may also be empty.
//   - The response is a success, and its body has the content that the operation returns under
//     key, such as the created patient. Only the platform can know it.
//
// Callers follow these rules:
//
//   - Any response to a write without proof means that the write may have been applied,
//     whatever the status. The client does not repeat the write.
//   - With proof, 3xx and 4xx mean that the platform did not apply the write, except 303 and
//     408. A 5xx is never such a proof, because gateways may add an X-Request-Id.
//   - A write is repeated only after a 429 with proof and a readable Retry-After, or once with
//     a fresh token after a 401 with proof.
//   - A read may be repeated in any case, so it is retried and gets a fresh token without
//     proof. Its content is decoded without further proof. But 400, 401, 403, 404, 409 and 422
//     without proof are not about the record or the user: the error is Untrusted and matches
//     no sentinel of these statuses.
//   - At the token endpoint, an error without proof blames neither the application nor the
//     user's grant. It counts as a temporary failure.
func (a *lastResponse) fromPlatform(key string) bool {
	if !a.complete {
		return false
	}
	body := bytes.TrimSpace(a.body.Bytes())
	if a.requestID() != "" {
		switch {
		case len(body) == 0:
			return a.success()
		case body[0] == '{' && body[len(body)-1] == '}':
			return a.success() || json.Valid(body) // a success is decoded later
		}
		return false
	}
	return a.success() && key != "" && hasContent(body, key)
}

// hasContent reports whether a body has an object with at least one member under key.
func hasContent(body []byte, key string) bool {
	var envelope map[string]json.RawMessage
	var content map[string]json.RawMessage
	return json.Unmarshal(body, &envelope) == nil && json.Unmarshal(envelope[key], &content) == nil && len(content) > 0
}

// rejectedForNow reports whether the platform has rejected a write temporarily and has stated
// when to repeat it. It checks its rate limit before it processes a request.
func (a *lastResponse) rejectedForNow() bool {
	_, stated := retryAfter(a.header)
	return a.status == http.StatusTooManyRequests && stated && a.fromPlatform("")
}
