package memhttp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Window is the maximum of unread bytes of a response. A handler that is further ahead waits,
// and the client receives the head, as with a socket.
const Window = 64 << 10

// exchange carries one request to a handler and its response back, without a socket. The
// handler runs on a new goroutine, so the timeout or cancellation of a client ends its wait,
// as with a real connection. A plain call of the handler could not time out.
//
// It is the [http.ResponseWriter] of the handler and the response body of the client.
type exchange struct {
	client *http.Request
	site   *site
	hangUp context.CancelFunc // ends the handler's context
	forget func() bool        // stops watching the client's context
	upload io.Closer          // the client's request body
	head   chan responseHead  // capacity 1: a handler does not wait for a client that left

	header  http.Header // the handler's
	status  int         // 0 until the handler writes it
	sent    http.Header // the header at that time
	length  int64       // of the body, as declared by the handler; -1 if not declared
	total   int64       // bytes written to the body
	flushed bool        // the head was sent before the handler returned

	mu    sync.Mutex
	moved sync.Cond // bytes were written or read, or one side ended
	data  []byte    // written bytes, from the last read on
	read  int       // number of read bytes in data
	end   error     // the reader's error after the data
	cut   error     // the immediate error of both sides
}

// responseHead is the head of a response, or the error in place of one.
type responseHead struct {
	response *http.Response
	err      error
}

// carry sends a request to a handler. The handler's context ends with base, with the client's
// context, when the client closes the body, and when the handler returns. carry calls done
// when the handler returns.
func carry(base context.Context, s *site, r *http.Request, done func()) (*http.Response, error) {
	client := r.Context()
	w := &exchange{client: r, site: s, head: make(chan responseHead, 1), header: make(http.Header, 4), length: -1}
	w.moved.L = &w.mu
	ctx, cancel := context.WithCancel(base)
	w.hangUp = cancel
	incoming := w.incoming(ctx)
	w.forget = func() bool { return true }
	if client.Done() != nil {
		w.forget = context.AfterFunc(client, func() { w.sever(context.Cause(client)) })
	}
	go w.serve(s.handler, incoming, done)
	select {
	case a := <-w.head:
		return a.response, a.err
	case <-client.Done():
		w.sever(context.Cause(client))
		return nil, context.Cause(client)
	case <-base.Done():
		w.sever(errClosed())
		return nil, errClosed()
	}
}

// serve runs the handler. If the handler panics or calls [runtime.Goexit], the connection is
// dropped, as the HTTP server does.
func (w *exchange) serve(h http.Handler, r *http.Request, done func()) {
	defer done()
	returned := false
	defer func() {
		cause := recover()
		switch {
		case returned:
			w.finish()
		case cause == nil, cause == http.ErrAbortHandler:
			w.drop(resetError(nil))
		default:
			w.drop(resetError(fmt.Errorf("the handler panicked: %v", cause)))
		}
		w.hangUp()
		_ = w.upload.Close() // an error belongs to the client
	}()
	h.ServeHTTP(w, r)
	returned = true
}

// Header returns the response header. Changes after WriteHeader have no effect.
func (w *exchange) Header() http.Header { return w.header }

// WriteHeader fixes status and header. The head is sent with the first flush.
func (w *exchange) WriteHeader(status int) {
	if w.status != 0 || status < 200 { // informational responses are not supported
		return
	}
	w.status = status
	w.sent = w.header.Clone()
	if declared, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil && declared >= 0 {
		w.length = declared
	}
}

// Write appends to the body. It waits while the window is full, and fails once the client has
// left.
func (w *exchange) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.flushed && w.total == 0 && len(p) > 0 && w.sent["Content-Type"] == nil {
		w.sent["Content-Type"] = []string{http.DetectContentType(p)}
	}
	if !w.bodied() {
		return len(p), nil
	}
	if w.length >= 0 && w.total+int64(len(p)) > w.length {
		n, _ := w.push(p[:w.length-w.total])
		return n, http.ErrContentLength
	}
	return w.push(p)
}

// bodied reports whether the response may have a body.
func (w *exchange) bodied() bool {
	return w.client.Method != http.MethodHead && w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

func (w *exchange) push(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(p) > 0 {
		free := Window - (len(w.data) - w.read)
		switch {
		case w.cut != nil:
			return n, fmt.Errorf("dispensarytest: the client has left: %w", w.cut)
		case free <= 0:
			w.leave(-1)
			w.moved.Wait()
			continue
		}
		part := p[:min(free, len(p))]
		if w.read > 0 {
			w.data = w.data[:copy(w.data, w.data[w.read:])]
			w.read = 0
		}
		w.data = append(w.data, part...)
		p, n = p[len(part):], n+len(part)
		w.total += int64(len(part))
		w.moved.Broadcast()
	}
	return n, nil
}

// Flush sends the head and all bytes written so far.
func (w *exchange) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave(-1)
}

// leave sends the head to the client, once. The caller holds mu.
func (w *exchange) leave(length int64) {
	if w.flushed {
		return
	}
	w.flushed = true
	if w.length >= 0 {
		length = w.length
	}
	if length >= 0 && w.sent["Content-Length"] == nil && w.bodied() {
		w.sent["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	response := &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: (*download)(w), ContentLength: length, Request: w.client,
	}
	if w.client.URL.Scheme == "https" {
		response.TLS = w.site.tls
	}
	w.head <- responseHead{response: response}
}

// finish completes the response after the handler has returned.
func (w *exchange) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = io.EOF
	if w.bodied() && w.total < w.length {
		w.end = io.ErrUnexpectedEOF
	}
	if w.client.Method == http.MethodHead {
		w.leave(-1) // the length of the omitted body is unknown
	} else {
		w.leave(w.total)
	}
	w.moved.Broadcast()
}

// drop ends the connection without a complete response.
func (w *exchange) drop(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.flushed {
		w.flushed = true
		w.head <- responseHead{err: err}
	}
	w.end = io.ErrUnexpectedEOF
	w.moved.Broadcast()
}

// sever ends the exchange from the client's side.
func (w *exchange) sever(cause error) {
	w.mu.Lock()
	if w.cut == nil {
		w.cut = cause
	}
	w.moved.Broadcast()
	w.mu.Unlock()
	w.hangUp()
	_ = w.upload.Close() // wakes a handler that is reading the body
}

// download is the client's view of the exchange: its response body.
type download exchange

// Read reads bytes from the handler, and waits if there are none.
func (d *download) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.cut != nil:
			return 0, d.cut
		case d.read < len(d.data):
			n := copy(p, d.data[d.read:])
			d.read += n
			d.moved.Broadcast()
			return n, nil
		case d.end != nil:
			d.forget()
			return 0, d.end
		case d.complete():
			d.forget()
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		d.moved.Wait()
	}
}

// complete reports whether the handler has written the whole body. If so, the reader need not
// wait for the handler to return. The caller holds mu.
func (d *download) complete() bool { return !(*exchange)(d).bodied() || d.total == d.length }

// Close tells the handler that the client has left, unless the whole body was read. In that
// case the connection stays open for the next request.
func (d *download) Close() error {
	d.forget()
	d.mu.Lock()
	done := d.cut == nil && d.read == len(d.data) && d.complete()
	if done {
		d.cut = errBodyClosed
	}
	d.mu.Unlock()
	if !done {
		(*exchange)(d).sever(errBodyClosed)
	}
	return nil
}

// errBodyClosed is the error of a read from a closed body. The similar error of net/http is
// about request bodies.
var errBodyClosed = fmt.Errorf("dispensarytest: read on closed response body: %w", net.ErrClosed)

// resetError returns the error of a connection that the other side dropped. why adds a cause
// if it is not nil.
func resetError(why error) error {
	cause := os.NewSyscallError("read", syscall.ECONNRESET)
	if why != nil {
		cause = fmt.Errorf("%w: %w", cause, why)
	}
	return &net.OpError{Op: "read", Net: "memory", Err: cause}
}

// errClosed returns the error of a connection to a closed platform.
func errClosed() error {
	return &net.OpError{Op: "dial", Net: "memory", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}
