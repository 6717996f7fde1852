package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

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
