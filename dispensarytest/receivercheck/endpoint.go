package receivercheck

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
)

// request is a request to the endpoint.
type request struct {
	method    string // "" means POST
	body      []byte
	source    io.Reader // replaces body if it is not nil
	length    int64     // Content-Length of source, or 0 for chunks
	signature string    // signature header, or "" for none
	header    string    // literal name of the header; "" means the canonical name of net/http
	genuine   bool      // signed like the platform, so the response may contain the challenge
}

// exchange is a request and its outcome.
type exchange struct {
	request
	during    string // name of the case
	status    int    // 0 without a response
	header    http.Header
	response  string
	err       error
	abandoned bool // the checker canceled the request
}

// endpoint sends requests to the webhook endpoint and records the exchanges.
type endpoint struct {
	Target
	ctx    context.Context
	client *http.Client
	url    string
	watch  *watchedHandler // wraps Handler, or nil with URL

	current string // name of the running case

	mu          sync.Mutex
	exchanges   []exchange
	dialFailed  bool   // the last request could not connect
	unreachable string // reason why no further case runs
}

// maxResponse is the maximum number of bytes read from a response.
const maxResponse = 64 << 10

// sign returns the signature header of a body at the current time of the endpoint's clock.
func (p *endpoint) sign(secret string, body []byte) string {
	return signature.Header(secret, p.Timing.Now(), body)
}

// signed returns a request signed like a request of the platform.
func (p *endpoint) signed(body []byte) request {
	return request{body: body, signature: p.sign(p.Secret, body), genuine: true}
}

// deliver sends a body in a signed request.
func (p *endpoint) deliver(body []byte) exchange { return p.post(p.signed(body)) }

// wrongSecret signs requests that the endpoint must reject.
const wrongSecret = "not the webhook secret"

// accepted reports whether the response has a 2xx status.
func (e exchange) accepted() bool { return e.err == nil && e.status/100 == 2 }

// signedAt returns a change that signs a request at the current time plus shift.
func (p *endpoint) signedAt(shift time.Duration) func(*request) {
	return func(r *request) { r.signature = signature.Header(p.Secret, p.Timing.Now().Add(shift), r.body) }
}

// post sends a request and waits for the response up to Timing.Timeout, like the platform. It
// records the exchange.
func (p *endpoint) post(r request) exchange {
	ctx, cancel := context.WithTimeout(p.ctx, p.Timing.Timeout)
	defer cancel()
	e := p.exchange(ctx, r)
	p.record(e)
	return e
}

// exchange sends a request and returns its outcome. It stops if ctx ends.
func (p *endpoint) exchange(ctx context.Context, r request) exchange {
	e := exchange{request: r, during: p.current}
	body := r.source
	if body == nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodPost), p.url, body)
	if err != nil {
		e.err = err
		return e
	}
	req.ContentLength = cmp.Or(r.length, req.ContentLength)
	req.Close = r.method == http.MethodHead // an invalid body in the response would break the next one
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dispensary-webhooks/2")
	if r.signature != "" {
		req.Header[cmp.Or(r.header, http.CanonicalHeaderKey("SVC-Signature"))] = []string{r.signature}
	}
	resp, err := p.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		var response []byte
		response, err = io.ReadAll(io.LimitReader(resp.Body, maxResponse))
		e.status, e.header, e.response = resp.StatusCode, maps.Clone(resp.Header), string(response)
	}
	e.err = err
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.err = context.DeadlineExceeded
	}
	return e
}

// record stores an exchange for the section Always.
func (p *endpoint) record(e exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges = append(p.exchanges, e)
	op, ok := errors.AsType[*net.OpError](e.err)
	if p.dialFailed = ok && op.Op == "dial"; p.dialFailed && len(p.exchanges) == 1 {
		p.unreachable = fmt.Sprintf("no server listens at %s", p.url)
	}
}

// inParts returns a body that arrives in parts. On a socket it pauses between parts, because a
// slow receiver might otherwise read two parts at once.
func (p *endpoint) inParts(left [][]byte) *parts { return &parts{left: left, pause: p.pause()} }

// pause returns a time long enough for sent bytes to reach the endpoint: at most 100 ms, or 0 for
// a Handler.
func (p *endpoint) pause() time.Duration {
	if p.watch != nil {
		return 0
	}
	return min(100*time.Millisecond, p.Timing.Timeout/10)
}

// describe returns the outcome of a request as a predicate, without secrets.
func (p *endpoint) describe(e exchange) string {
	switch {
	case e.timedOut():
		return fmt.Sprintf("sends no response within %s", p.Timing.Timeout)
	case e.err != nil:
		reason := e.err
		if named, ok := errors.AsType[*url.Error](e.err); ok {
			reason = named.Err // omit the URL, because it is always the same
		}
		return "sends no response: " + reason.Error()
	}
	return fmt.Sprintf("responds with %d %s", e.status, p.quote(e.response))
}

// quote returns a response body with placeholders for secrets, cut to 200 bytes. It escapes the
// text if it contains control characters or backquotes.
func (p *endpoint) quote(response string) string {
	pairs := []string{p.Secret, "<the webhook secret>", p.Challenge, "<the challenge token>"}
	if p.Features.OldSecret != "" {
		pairs = append(pairs, p.Features.OldSecret, "<the old webhook secret>")
	}
	response = strings.NewReplacer(pairs...).Replace(strings.TrimSpace(response))
	if len(response) > 200 {
		response = response[:200] + "…"
	}
	if strconv.CanBackquote(response) {
		return response
	}
	return strconv.Quote(response)
}

// acknowledgement returns the mistake in the response to an accepted event, or "" if the response
// is correct. Assumption: the content type matters, and other members are not allowed.
//
// API section: "Webhooks" 3.
func (p *endpoint) acknowledgement(e exchange) string {
	if e.status != http.StatusOK && e.status != http.StatusCreated {
		return fmt.Sprintf("has status %d: only 200 and 201 count", e.status)
	}
	var members map[string]json.RawMessage
	var token string
	err := json.Unmarshal([]byte(e.response), &members)
	switch {
	case e.response == "":
		return "has no body"
	case strings.Contains(e.response, p.Secret):
		return "contains the webhook secret: the challenge token is another value in the dashboard, and the secret must stay secret"
	case err != nil:
		return fmt.Sprintf("is not a JSON object: %s", p.quote(e.response))
	case members["challenge"] == nil:
		return fmt.Sprintf("has no member challenge: %s", p.quote(e.response))
	case json.Unmarshal(members["challenge"], &token) != nil || token != p.Challenge:
		return fmt.Sprintf("has a challenge that differs from the dashboard: %s", p.quote(e.response))
	case len(members) > 1:
		return fmt.Sprintf("has members besides challenge: %s", p.quote(e.response))
	}
	if kind, _, _ := mime.ParseMediaType(e.header.Get("Content-Type")); kind != "application/json" {
		return fmt.Sprintf("has content type %q instead of application/json", e.header.Get("Content-Type"))
	}
	return ""
}

// verifies reports whether the endpoint distinguishes a valid signature of a body from a wrong
// signature.
func (p *endpoint) verifies(body []byte) bool {
	right := p.deliver(body)
	wrong := p.post(request{body: body, signature: p.sign(wrongSecret, body)})
	return right.err == nil && !right.unauthorized() && wrong.unauthorized()
}

// timedOut reports whether the request timed out.
func (e exchange) timedOut() bool { return errors.Is(e.err, context.DeadlineExceeded) }

// unauthorized reports whether the endpoint rejected the signature, with 401 or 403.
func (e exchange) unauthorized() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

// dropped reports whether the receiver closed the connection without a response.
func (e exchange) dropped() bool {
	return e.err != nil && !e.abandoned && !e.timedOut() && !errors.Is(e.err, context.Canceled)
}

// parts is a request body of several non-empty parts. The HTTP client sends the result of each
// Read as a separate chunk or frame before it reads again. One part is therefore sent before the
// pause for the next part begins.
type parts struct {
	left  [][]byte
	pause time.Duration // wait before each part except the first
	begun bool
	read  atomic.Bool // all parts were read
}

// Read implements [io.Reader].
func (p *parts) Read(to []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	if p.begun {
		time.Sleep(p.pause)
	}
	n := copy(to, p.left[0])
	if p.left[0] = p.left[0][n:]; len(p.left[0]) == 0 {
		p.left, p.begun = p.left[1:], true
	}
	p.read.Store(len(p.left) == 0)
	return n, nil
}

// beyond is a body size of 32 MiB, above any sensible limit.
const beyond = 32 << 20

// flood sends a body of 32 MiB of spaces with a wrong signature. complete reports whether the
// endpoint responded after it had read the whole body.
func (p *endpoint) flood(length int64) (e exchange, complete bool) {
	ctx, cancel := context.WithTimeout(p.ctx, max(p.Timing.Timeout, p.Timing.Patience))
	defer cancel()
	blanks := bytes.Repeat([]byte(" "), 32<<10)
	source := &parts{}
	for range beyond / len(blanks) {
		source.left = append(source.left, blanks)
	}
	e = p.exchange(ctx, request{source: source, length: length, signature: p.sign(wrongSecret, nil)})
	return e, e.err == nil && source.read.Load()
}

// halfRequest is a request with an incomplete body.
type halfRequest struct {
	response chan exchange
	abort    func()
}

// sendHalf sends half of an event. It returns after the client has read this half, or after
// Timing.Timeout.
func (p *endpoint) sendHalf(ev event) halfRequest {
	ctx, cancel := context.WithCancel(p.ctx)
	body, end := io.Pipe()
	s := halfRequest{response: make(chan exchange, 1), abort: func() {
		cancel()
		_ = end.CloseWithError(io.ErrUnexpectedEOF) // the client waits until its body ends
	}}
	r := p.signed(ev.body())
	r.source = body
	go func() { s.response <- p.exchange(ctx, r) }()
	read := make(chan struct{})
	go func() {
		_, _ = end.Write(r.body[:len(r.body)/2]) // fails after an early response
		close(read)
	}()
	select {
	case <-read:
		time.Sleep(p.pause())
	case <-time.After(p.Timing.Timeout):
	}
	return s
}

// watchedHandler records the panics of a handler and counts its running requests.
type watchedHandler struct {
	handler http.Handler
	running atomic.Int64

	mu     sync.Mutex
	panics []string
}

// ServeHTTP implements [http.Handler].
func (w *watchedHandler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.running.Add(1)
	defer w.running.Add(-1)
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause != http.ErrAbortHandler {
			w.mu.Lock()
			w.panics = append(w.panics, fmt.Sprintf("%v\n%s", cause, debug.Stack()))
			w.mu.Unlock()
		}
		panic(cause) // drops the connection, as a net/http server does
	}()
	w.handler.ServeHTTP(rw, r)
}

// idle reports whether no request is running.
func (w *watchedHandler) idle() bool { return w.running.Load() == 0 }

// reportPanics returns a finding with the number of panics and the text of the first, or nil
// without a panic.
func (w *watchedHandler) reportPanics() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.panics) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("panics %d times; the first panic: %s", len(w.panics), w.panics[0])}
}
