package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// exchange is one call on its way: what is sent, and the last answer to it.
type exchange struct {
	client   *Client
	call     *Call
	settings api.RequestSettings
	request  *retryablehttp.Request

	attempts int
	wait     time.Duration // before the next attempt
	began    time.Time     // of the last attempt
	trace    connectionTrace
	lacks    *api.ScopeError // what the token was found to lack, if anything
	observed *observation    // nil if nobody observes

	status int         // of the last answer, 0 where none came
	header http.Header // of the last answer
	body   *bytes.Buffer
	read   bool // body holds the whole of the answer

	taken   bool  // the body of the answer was read, as far as that went
	readErr error // why it was not read to its end
}

// send carries a call through the pipeline. On success the exchange holds the
// whole answer, whose buffer the caller releases; on failure it holds nothing
// and the error tells everything.
func (c *Client) send(ctx context.Context, call *Call) (*exchange, error) {
	x := &exchange{client: c, call: call}
	for _, option := range call.Options {
		option(&x.settings)
	}
	ctx = x.observe(ctx)
	err := x.prepare(ctx) // arguments are checked before anything is fetched or sent
	if err != nil {
		x.observed.failed(observe.FailureArgument, api.OutcomeNotSent)
		x.release()
		return nil, err
	}
	err = x.authorize(ctx, func(ctx context.Context) error { // token and its scopes; once more with a fresh one on 401
		return x.attempt(ctx) // limit, retry, send, read
	})
	x.capture()
	if err != nil || x.status < 200 || x.status > 299 {
		err = x.explain(err)
		x.release()
		return nil, err
	}
	return x, nil
}

func (x *exchange) prepare(ctx context.Context) error {
	if !x.call.Operation.Read() {
		// Only a write needs to know whether a connection was ever made: a
		// failed read is repeated in any case.
		ctx = httptrace.WithClientTrace(ctx, x.trace.hooks())
	}
	request, err := x.client.newRequest(ctx, x.call, &x.settings)
	x.request = request
	return err
}

// attempt sends the request until the retry policy is content, and leaves the
// last answer in the exchange. It returns an error where no whole answer came.
func (x *exchange) attempt(ctx context.Context) error {
	x.forget()
	if err := x.limit(ctx); err != nil {
		return err
	}
	x.request.SetResponseHandler(x.readAnswer)
	sender := retryablehttp.Client{
		HTTPClient:     x.client.http,
		RetryMax:       x.client.config.Retry.MaxAttempts - 1,
		RequestLogHook: x.begin,
		CheckRetry:     x.checkRetry,
		Backoff:        x.backoff,
		PrepareRetry: func(r *http.Request) error {
			r.Header = x.headerAgain(r.Header)
			return x.limit(ctx)
		},
		ErrorHandler: func(r *http.Response, err error, _ int) (*http.Response, error) { return r, err },
	}
	response, err := sender.Do(x.request)
	if response != nil {
		_ = response.Body.Close() // read to its end, or given up
	}
	return err
}

// limit waits until the platform takes requests, and for the limiter's leave. Its
// failure is told apart from the network's: what waited was not sent.
func (x *exchange) limit(ctx context.Context) error {
	limiter := x.client.config.Limiter
	if limiter == nil && x.client.throttle.left() == 0 {
		return nil
	}
	defer x.observed.limited(time.Now())
	for {
		if err := x.awaitThrottle(ctx); err != nil {
			return &ownError{cause: err, limiter: true}
		}
		if limiter == nil {
			return nil
		}
		if err := limiter.Wait(ctx); err != nil {
			return &ownError{cause: err, limiter: true}
		}
		if x.client.throttle.left() == 0 || !x.call.Operation.NeedsToken() {
			return nil
		}
		// Another call was told to wait while this one waited. Its leave is forfeit.
	}
}

// ownError is a failure of this side, of the limiter or the token source: it is
// shown as it is, and tells whether the platform had answered before.
type ownError struct {
	cause    error
	answered bool
	limiter  bool
}

func (e *ownError) Error() string { return e.cause.Error() }
func (e *ownError) Unwrap() error { return e.cause }

func (x *exchange) begin(_ retryablehttp.Logger, _ *http.Request, _ int) {
	x.attempts++
	x.observed.attemptStart(x)
	x.wait = 0
	x.began = time.Now()
	x.trace.reset()
	x.forget()
}

// forget drops the last answer.
func (x *exchange) forget() {
	x.status, x.header, x.read, x.taken, x.readErr = 0, nil, false, false, nil
}

// errTooLarge is an answer beyond the configured limit.
var errTooLarge = errors.New("response is larger than the limit")

// readAnswer reads an answer to its end, so that a body that breaks off is
// retried like a connection that does. An answer is read once, however often it
// is asked for.
func (x *exchange) readAnswer(response *http.Response) error {
	if !x.taken {
		x.taken, x.readErr = true, x.readBody(response)
	}
	return x.readErr
}

func (x *exchange) readBody(response *http.Response) error {
	defer func() { _ = response.Body.Close() }()
	x.status, x.header = response.StatusCode, response.Header
	x.noteThrottle()
	limit := x.client.config.MaxResponseBytes
	if x.body == nil {
		x.body = buffers.Get().(*bytes.Buffer)
	}
	x.body.Reset()
	if n := response.ContentLength; n > 0 && n <= limit {
		x.body.Grow(int(n) + bytes.MinRead) // MinRead: ReadFrom asks for that much room before it sees the end
	}
	_, err := x.body.ReadFrom(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return err
	case int64(x.body.Len()) > limit:
		return errTooLarge
	}
	x.read = true
	return nil
}

// capture hands the answer's headers to those who asked for them.
func (x *exchange) capture() {
	for _, response := range x.settings.Captures {
		*response = api.Response{
			StatusCode: x.status, Header: x.header, RequestID: x.header.Get(requestIDHeader), Attempts: x.attempts,
		}
	}
}

const requestIDHeader = "X-Request-Id"

// buffers hold answers while they are decoded. A list of 100 products is about
// 100 KB; growing a new buffer to that costs more than decoding into a used one.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBuffer keeps one huge answer from occupying memory for ever.
const maxPooledBuffer = 1 << 20

// release ends the exchange and returns the buffer. Nothing decoded may refer to
// it any more.
func (x *exchange) release() {
	x.observed.callEnd(x)
	if x.body != nil && x.body.Cap() <= maxPooledBuffer {
		buffers.Put(x.body)
	}
	x.body = nil
}

// connectionTrace learns whether an attempt got a connection. It is written by
// the transport's goroutines.
type connectionTrace struct {
	mu            sync.Mutex
	asked, gotten bool
}

func (t *connectionTrace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { t.mu.Lock(); t.asked = true; t.mu.Unlock() },
		GotConn: func(httptrace.GotConnInfo) { t.mu.Lock(); t.gotten = true; t.mu.Unlock() },
	}
}

func (t *connectionTrace) reset() {
	t.mu.Lock()
	t.asked, t.gotten = false, false
	t.mu.Unlock()
}

// unconnected reports that a transport which tells such things asked for a
// connection and got none: nothing can have been sent.
func (t *connectionTrace) unconnected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked && !t.gotten
}
