package transport

import (
	"net/http/httptrace"
	"sync"
)

// connectionTrace follows a write on its way into a connection. The goroutines of the
// transport write to it.
//
// It also keeps net/http from repeating the write. On a kept HTTP/1 connection that
// breaks before the response, net/http sends a request again if a header marks it as
// idempotent, and any RoundTripper can add such a header. The platform does not know
// these headers and applies the write twice. If a connection was granted after such a
// header was written, the trace closes the connection before net/http uses it. The write
// then fails, and it may have been applied.
//
// Other repetitions by net/http are safe: it has written no byte, or the peer has reported
// with GOAWAY or REFUSED_STREAM that it has not processed the request.
type connectionTrace struct {
	mu             sync.Mutex
	asked, granted bool
	repeatable     bool // a header that net/http takes for a promise was written

	client httptrace.ClientTrace
}

func (t *connectionTrace) hooks() *httptrace.ClientTrace {
	t.client = httptrace.ClientTrace{GetConn: t.getConn, GotConn: t.gotConn, WroteHeaderField: t.wroteHeaderField}
	return &t.client
}

func (t *connectionTrace) getConn(string) {
	t.mu.Lock()
	t.asked = true
	t.mu.Unlock()
}

func (t *connectionTrace) gotConn(got httptrace.GotConnInfo) {
	t.mu.Lock()
	t.granted = true
	t.mu.Unlock()
	if t.wasRepeatable() && got.Conn != nil {
		_ = got.Conn.Close()
	}
}

// wroteHeaderField sees the names as net/http does: in canonical form on HTTP/1. HTTP/2
// writes them in lower case, and never repeats a request because of them.
func (t *connectionTrace) wroteHeaderField(name string, _ []string) {
	if isIdempotencyKey(name) {
		t.mu.Lock()
		t.repeatable = true
		t.mu.Unlock()
	}
}

func (t *connectionTrace) reset() {
	t.mu.Lock()
	t.asked, t.granted, t.repeatable = false, false, false
	t.mu.Unlock()
}

// unconnected reports whether a transport that reports its connections asked for one and
// got none. It cannot have sent anything.
func (t *connectionTrace) unconnected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked && !t.granted
}

// wasRepeatable reports whether net/http may send the write again by itself.
func (t *connectionTrace) wasRepeatable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.repeatable
}
