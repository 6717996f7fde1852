package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// answer is the last answer to a call.
type answer struct {
	status   int         // 0 where none came
	header   http.Header // nil where none came
	body     *bytes.Buffer
	complete bool // body holds the whole of the answer

	tried   bool  // the body was read, as far as that went
	readErr error // why it was not read to its end

	limited io.LimitedReader
}

// reset drops the answer and keeps its buffer.
func (a *answer) reset() {
	a.status, a.header, a.complete, a.tried, a.readErr = 0, nil, false, false, nil
}

// maxBody is the size limit of a successful response in bytes, after decompression.
const maxBody = 32 << 20

// maxSmallBody bounds the bodies of errors and of token responses, which are short. Only
// a list may be larger.
const maxSmallBody = 1 << 20

// read reads an answer to its end, so that a body that breaks off is retried like a
// connection that does. The rest of an error's body beyond maxSmallBody is dropped: its
// status still counts, but it has no proof that the platform wrote it.
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
	if n := min(response.ContentLength, limit, maxPooledBuffer); n > 0 { // a longer one is only announced
		a.body.Grow(int(n) + bytes.MinRead) // MinRead: ReadFrom asks for that much room before it sees the end
	}
	a.limited = io.LimitedReader{R: response.Body, N: limit + 1}
	_, err := a.body.ReadFrom(&a.limited)
	a.limited.R = nil
	switch {
	case err != nil:
		return fmt.Errorf("read body: %w", err) // its deadline may not be the caller's
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

// ByteOrderMark is a prefix that some gateways add to JSON. RFC 8259 allows readers to
// ignore it.
const ByteOrderMark = "\ufeff"

// errTooLarge is an answer beyond its limit.
var errTooLarge = errors.New("response is larger than the limit")

func (a *answer) success() bool { return a.status >= 200 && a.status <= 299 }

func (a *answer) requestID() string { return RequestID(a.header) }

// buffers hold answers while they are decoded. A list of 100 products is about
// 100 KB; growing a new buffer to that costs more than decoding into a used one.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBuffer keeps one huge answer from occupying memory permanently.
const maxPooledBuffer = 1 << 20

// release returns the buffer. Nothing decoded may refer to it any more.
func (a *answer) release() {
	if a.body != nil && a.body.Cap() <= maxPooledBuffer {
		buffers.Put(a.body)
	}
	a.body = nil
}
