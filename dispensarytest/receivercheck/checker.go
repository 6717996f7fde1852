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
	srv    *dispensarytest.Server // makes the samples; its network leads to Handler
	hosted *http.Client           // for what is on that network
	client *http.Client           // for the endpoint
	url    string                 // of the endpoint
	watch  *watchedHandler        // of Handler; nil with URL

	samples samples

	current string   // the case that is running
	found   []string // its findings
	skipped string   // why it found nothing out

	unreachable     string         // why no case is run any more
	halted          string         // why only the cases that review others are run
	slowness        string         // how long a receiver takes that is too slow for every case
	expectedHandled map[string]int // how often each event may be handled, by id

	mu         sync.Mutex
	exchanges  []exchange
	dialFailed bool // for the last request
}

// testCase is one thing that an endpoint must or must not do.
type testCase struct {
	name  string       // as in [Verdict]
	needs *requirement // nil if there is none
	run   func(*checker)

	// reviews says that the case sends nothing and reviews the exchanges of the
	// others.
	reviews bool

	// Shown with a failure: what the mistake does in production, and what to do.
	consequence, fix string
}

// request is a request that a case makes.
type request struct {
	method    string // "" is POST
	body      []byte
	source    io.Reader // in place of body, for one that takes its time
	length    int64     // of source, announced as Content-Length; 0 is chunked
	signature string    // the header; "" is none
	header    string    // its name, as it is written; "" is that of net/http
	genuine   bool      // signed as the platform signs, so that the answer may carry the challenge
}

// exchange is a request that was made, and its outcome.
type exchange struct {
	request
	during    string // the case
	status    int    // 0 if there was no answer
	header    http.Header
	answer    string
	err       error
	abandoned bool // the checker broke it off
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// receiverOrigin is where Handler is hosted on the network without sockets.
const receiverOrigin = "https://receiver.dispensary.test"

// newChecker prepares everything, and sends nothing yet.
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

func (c *checker) close() { _ = c.srv.Close() } // it was not listening

// run runs a case.
func (c *checker) run(tc testCase) Verdict {
	v := Verdict{Case: tc.name, Consequence: tc.consequence, Fix: tc.fix}
	reason := cmp.Or(c.unreachable, c.missing(tc.needs))
	if !tc.reviews {
		reason = cmp.Or(c.unreachable, c.halted, reason)
	}
	if v.Skipped = reason; reason != "" {
		return v
	}
	c.current, c.found, c.skipped = v.Case, nil, ""
	tc.run(c)
	if c.dialFailed && c.unreachable == "" {
		c.unreachable = fmt.Sprintf("nothing listens at %s any more, since %s", c.url, v.Case)
	}
	v.Findings, v.Skipped = c.found, c.skipped
	if !v.Failed() && !tc.reviews {
		v.Skipped = c.halted
	}
	return v
}

// post sends a request and waits for the answer, for as long as the platform
// does.
func (c *checker) post(p request) exchange {
	ctx, cancel := context.WithTimeout(c.ctx, c.Timing.Timeout)
	defer cancel()
	e := c.exchange(ctx, p)
	c.record(e)
	return e
}

// exchange sends a request, and ends with its context.
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
	req.Close = p.method == http.MethodHead // a response with a body would break the next one
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dispensary-webhooks/2")
	if p.signature != "" {
		req.Header[cmp.Or(p.header, http.CanonicalHeaderKey("SVC-Signature"))] = []string{p.signature}
	}
	resp, err := c.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		var answer []byte
		answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		e.status, e.header, e.answer = resp.StatusCode, maps.Clone(resp.Header), string(answer)
	}
	e.err = err
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.err = context.DeadlineExceeded
	}
	return e
}

// record keeps an exchange for the section Always.
func (c *checker) record(e exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges = append(c.exchanges, e)
	op, ok := errors.AsType[*net.OpError](e.err)
	if c.dialFailed = ok && op.Op == "dial"; c.dialFailed && len(c.exchanges) == 1 {
		c.unreachable = fmt.Sprintf("nothing listens at %s", c.url)
	}
}

// timedOut reports that the platform would have stopped waiting.
func (e exchange) timedOut() bool { return errors.Is(e.err, context.DeadlineExceeded) }

// describe says how a request was answered, without secrets.
func (c *checker) describe(e exchange) string {
	switch {
	case e.timedOut():
		return fmt.Sprintf("was not answered within %s", c.Timing.Timeout)
	case e.err != nil:
		reason := e.err
		if named, ok := errors.AsType[*url.Error](e.err); ok {
			reason = named.Err // without the address, which is always the same
		}
		return "got no answer: " + reason.Error()
	}
	return fmt.Sprintf("was answered with %d %s", e.status, c.quote(e.answer))
}

// quote returns an answer in quotes, shortened and with names in place of secrets.
func (c *checker) quote(answer string) string {
	pairs := []string{c.Secret, "<the webhook secret>", c.Challenge, "<the challenge token>"}
	if c.Features.OldSecret != "" {
		pairs = append(pairs, c.Features.OldSecret, "<the old webhook secret>")
	}
	answer = strings.NewReplacer(pairs...).Replace(strings.TrimSpace(answer))
	if len(answer) > 200 {
		answer = answer[:200] + "…"
	}
	if strconv.CanBackquote(answer) {
		return answer
	}
	return strconv.Quote(answer)
}

// waitUntil polls until something is done, for as long as Patience allows.
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

// watchedHandler records the panics of a handler, and counts its running requests.
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
		panic(cause) // the connection drops, as with a server of net/http
	}()
	w.handler.ServeHTTP(rw, r)
}

// idle reports that every request has ended.
func (w *watchedHandler) idle() bool { return w.running.Load() == 0 }

// reportPanics returns a finding that quotes the first panic, or none.
func (w *watchedHandler) reportPanics() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.panics) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the first of %d panics: %s", len(w.panics), w.panics[0])}
}
