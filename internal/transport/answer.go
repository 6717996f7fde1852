package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// answer is the last response to a call.
type answer struct {
	status   int         // 0 without a response
	header   http.Header // nil without a response
	body     *bytes.Buffer
	complete bool // body contains the complete response body

	tried   bool  // reading the body was attempted
	readErr error // error that interrupted reading

	limited io.LimitedReader
}

// reset clears the response and keeps its buffer.
func (a *answer) reset() {
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
func (a *answer) read(response *http.Response, limit int64) error {
	a.tried, a.readErr = true, a.readBody(response, limit)
	return a.readErr
}

func (a *answer) readBody(response *http.Response, limit int64) error {
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

func (a *answer) success() bool { return a.status >= 200 && a.status <= 299 }

func (a *answer) requestID() string { return RequestID(a.header) }

// buffers contains buffers for responses during decoding. A list of 100 products has about 100
// KB. Growing a new buffer to this size costs more than decoding into a reused one.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBuffer is the size in bytes of the largest buffer to keep, so one huge response
// does not occupy memory permanently.
const maxPooledBuffer = 1 << 20

// release returns the buffer to the pool. No decoded value may refer to it.
func (a *answer) release() {
	if a.body != nil && a.body.Cap() <= maxPooledBuffer {
		buffers.Put(a.body)
	}
	a.body = nil
}
