package receivercheck

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"time"
)

// parts is a body that comes in parts, which are not empty. HTTP sends what one Read
// returned, as a separate chunk or frame, before it reads again: so one part has been sent
// when the wait for the next begins.
type parts struct {
	left  [][]byte
	pause time.Duration // before each part but the first
	begun bool
	read  atomic.Bool // to the end
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

// inParts returns a body that arrives in parts. On a socket it pauses between them: without
// the pause, a slow receiver may read two parts at once.
func (c *checker) inParts(left [][]byte) *parts {
	return &parts{left: left, pause: c.pause()}
}

// pause returns the time in which sent bytes reach the endpoint.
func (c *checker) pause() time.Duration {
	if c.watch != nil {
		return 0
	}
	return min(100*time.Millisecond, c.Timing.Timeout/10)
}

// beyond is more than a sensible limit.
const beyond = 32 << 20

// flood sends a body of blanks beyond a sensible limit, and reports whether it was answered
// after all of it was read.
func (c *checker) flood(length int64) (e exchange, whole bool) {
	ctx, cancel := context.WithTimeout(c.ctx, max(c.Timing.Timeout, c.Timing.Patience))
	defer cancel()
	blanks := bytes.Repeat([]byte(" "), 32<<10)
	source := &parts{}
	for range beyond / len(blanks) {
		source.left = append(source.left, blanks)
	}
	e = c.exchange(ctx, request{source: source, length: length, signature: c.sign(wrongSecret, nil)})
	return e, e.err == nil && source.read.Load()
}

// halfRequest is a request whose body stops half way.
type halfRequest struct {
	answer chan exchange
	abort  func()
}

// sendHalf sends half of an event, and returns once it was read or the request was
// answered.
func (c *checker) sendHalf(ev event) halfRequest {
	ctx, cancel := context.WithCancel(c.ctx)
	body, end := io.Pipe()
	s := halfRequest{answer: make(chan exchange, 1), abort: func() {
		cancel()
		_ = end.CloseWithError(io.ErrUnexpectedEOF) // a client waits until its body is read
	}}
	r := c.signed(ev.body())
	r.source = body
	go func() { s.answer <- c.exchange(ctx, r) }()
	read := make(chan struct{})
	go func() {
		_, _ = end.Write(r.body[:len(r.body)/2]) // fails if it is answered early
		close(read)
	}()
	select {
	case <-read:
		time.Sleep(c.pause())
	case <-time.After(c.Timing.Timeout):
	}
	return s
}

// refusesHalf demands that half an event was not accepted.
func (c *checker) refusesHalf(e exchange) {
	e.abandoned = true
	c.record(e)
	if e.accepted() {
		c.reportf("half an event %s", c.describe(e))
	}
}
