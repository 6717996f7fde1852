package receivercheck

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// checker checks one endpoint.
type checker struct {
	Target
	ctx    context.Context
	srv    *dispensarytest.Server // creates the samples and hosts Handler on its network
	hosted *http.Client           // client for the network of srv
	client *http.Client           // client for the endpoint
	url    string                 // URL of the endpoint
	watch  *watchedHandler        // wraps Handler, or nil with URL

	samples samples

	current string   // name of the running case
	found   []string // findings of the running case
	skipped string   // reason why the running case skipped itself

	unreachable     string         // reason why no further case runs
	halted          string         // reason why only reviewing cases run
	slowness        string         // finding about a receiver that is too slow for every case
	expectedHandled map[string]int // maximum number of handlings by event ID

	mu         sync.Mutex
	exchanges  []exchange
	dialFailed bool // the last request could not connect
}

// testCase tests one requirement on an endpoint.
type testCase struct {
	name  string       // as in [Verdict]
	needs *requirement // nil if the case needs no optional field
	run   func(*checker)

	// reviews means that the case sends no request and reviews the exchanges of the other
	// cases.
	reviews bool

	// consequence is the effect of the mistake in production, and fix is its correction.
	consequence, fix string
}

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

// maxResponse is the maximum number of bytes read from a response.
const maxResponse = 64 << 10

// receiverOrigin is the origin of Handler on the in-memory network.
const receiverOrigin = "https://receiver.dispensary.test"

// newChecker returns a checker that has not sent any request yet.
func newChecker(ctx context.Context, target Target) (*checker, error) {
	target, err := target.withDefaults()
	if err != nil {
		return nil, err
	}
	srv, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{Seed: rand.Uint64(), Integrations: 2}))
	if err != nil {
		return nil, err
	}
	c := &checker{Target: target, ctx: ctx, srv: srv, url: target.URL, expectedHandled: make(map[string]int)}
	c.hosted = withoutRedirects(srv.HTTPClient())
	c.client = withoutRedirects(target.Client)
	if target.Handler != nil {
		c.watch = &watchedHandler{handler: target.Handler}
		c.client, c.url = c.hosted, receiverOrigin+target.Path
		err = srv.Host(receiverOrigin, c.watch)
	}
	if err == nil {
		c.samples, err = collectSamples(srv)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func withoutRedirects(client *http.Client) *http.Client {
	copied := *client
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied
}

func (c *checker) close() { _ = c.srv.Close() } // an in-memory server has no listener to fail

// run runs a case and returns its verdict.
func (c *checker) run(tc testCase) Verdict {
	v := Verdict{Case: tc.name, Consequence: tc.consequence, Fix: tc.fix}
	reason := cmp.Or(c.unreachable, c.missing(tc.needs))
	if !tc.reviews {
		reason = cmp.Or(c.unreachable, c.halted, reason)
	}
	if v.Skipped = reason; reason != "" {
		if reason == c.missing(tc.needs) {
			v.Needs = tc.needs.field
		}
		return v
	}
	c.current, c.found, c.skipped = v.Case, nil, ""
	tc.run(c)
	if c.dialFailed && c.unreachable == "" {
		c.unreachable = fmt.Sprintf("no server has listened at %s since %s", c.url, v.Case)
	}
	v.Findings, v.Skipped = c.found, c.skipped
	if !v.Failed() && !tc.reviews {
		v.Skipped = c.halted
	}
	return v
}

// post sends a request and waits for the response up to Timing.Timeout, like the platform. It
// records the exchange.
func (c *checker) post(p request) exchange {
	ctx, cancel := context.WithTimeout(c.ctx, c.Timing.Timeout)
	defer cancel()
	e := c.exchange(ctx, p)
	c.record(e)
	return e
}

// exchange sends a request and returns its outcome. It stops if ctx ends.
func (c *checker) exchange(ctx context.Context, p request) exchange {
	e := exchange{request: p, during: c.current}
	body := p.source
	if body == nil {
		body = bytes.NewReader(p.body)
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(p.method, http.MethodPost), c.url, body)
	if err != nil {
		e.err = err
		return e
	}
	req.ContentLength = cmp.Or(p.length, req.ContentLength)
	req.Close = p.method == http.MethodHead // an invalid body in the response would break the next one
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dispensary-webhooks/2")
	if p.signature != "" {
		req.Header[cmp.Or(p.header, http.CanonicalHeaderKey("SVC-Signature"))] = []string{p.signature}
	}
	resp, err := c.client.Do(req)
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
func (c *checker) record(e exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges = append(c.exchanges, e)
	op, ok := errors.AsType[*net.OpError](e.err)
	if c.dialFailed = ok && op.Op == "dial"; c.dialFailed && len(c.exchanges) == 1 {
		c.unreachable = fmt.Sprintf("no server listens at %s", c.url)
	}
}

// timedOut reports whether the request timed out.
func (e exchange) timedOut() bool { return errors.Is(e.err, context.DeadlineExceeded) }

// describe returns the outcome of a request as a predicate, without secrets.
func (c *checker) describe(e exchange) string {
	switch {
	case e.timedOut():
		return fmt.Sprintf("sends no response within %s", c.Timing.Timeout)
	case e.err != nil:
		reason := e.err
		if named, ok := errors.AsType[*url.Error](e.err); ok {
			reason = named.Err // omit the URL, because it is always the same
		}
		return "sends no response: " + reason.Error()
	}
	return fmt.Sprintf("responds with %d %s", e.status, c.quote(e.response))
}

// quote returns a response body with placeholders for secrets, cut to 200 bytes. It escapes the
// text if it contains control characters or backquotes.
func (c *checker) quote(response string) string {
	pairs := []string{c.Secret, "<the webhook secret>", c.Challenge, "<the challenge token>"}
	if c.Features.OldSecret != "" {
		pairs = append(pairs, c.Features.OldSecret, "<the old webhook secret>")
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

// waitUntil polls until done returns true or Timing.Patience has passed. It reports whether done
// returned true.
func (c *checker) waitUntil(done func() bool) bool {
	ctx, cancel := context.WithTimeout(c.ctx, c.Timing.Patience)
	defer cancel()
	for !done() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return done()
		}
	}
	return true
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
