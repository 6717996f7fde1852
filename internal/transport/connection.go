package transport

import (
	"net/http/httptrace"
	"sync"
)

// connectionTrace tracks the connection of a write. The goroutines of the transport write to
// it.
//
// It also prevents net/http from repeating the write. If a reused HTTP/1 connection breaks
// before the response, net/http sends a request again if a header marks it as idempotent, and
// any RoundTripper can add such a header. The platform does not know these headers and applies
// the write twice. If such a header was written before net/http gets another connection, the
// trace closes that connection before net/http uses it. The write then fails, and it may have
// been applied.
//
// Other repetitions by net/http are safe: it has written no byte, or the peer has reported
// with GOAWAY or REFUSED_STREAM that it has not processed the request.
type connectionTrace struct {
	mu             sync.Mutex
	asked, granted bool
	repeatable     bool // a header that marks the write as idempotent was written

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

// wroteHeaderField receives the names as net/http does: in canonical form on HTTP/1. HTTP/2
// uses lower case and never repeats a request because of these headers.
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

// unconnected reports whether a transport that reports its connections requested one and got
// none. Such a transport cannot have sent anything.
func (t *connectionTrace) unconnected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked && !t.granted
}

// wasRepeatable reports whether net/http may repeat the write by itself.
func (t *connectionTrace) wasRepeatable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.repeatable
}
