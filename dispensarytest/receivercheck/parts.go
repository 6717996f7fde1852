package receivercheck

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"time"
)

// parts is a request body of several non-empty parts. The HTTP client sends the result of each
// Read as a separate chunk or frame before it reads again. One part is therefore sent before the
// pause for the next part begins.
type parts struct {
	left  [][]byte
	pause time.Duration // wait before each part except the first
	begun bool
	read  atomic.Bool // all parts were read
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

// inParts returns a body that arrives in parts. On a socket it pauses between parts, because a
// slow receiver might otherwise read two parts at once.
func (c *checker) inParts(left [][]byte) *parts {
	return &parts{left: left, pause: c.pause()}
}

// pause returns a time long enough for sent bytes to reach the endpoint: at most 100 ms, or 0 for
// a Handler.
func (c *checker) pause() time.Duration {
	if c.watch != nil {
		return 0
	}
	return min(100*time.Millisecond, c.Timing.Timeout/10)
}

// beyond is a body size of 32 MiB, above any sensible limit.
const beyond = 32 << 20

// flood sends a body of 32 MiB of spaces with a wrong signature. whole reports whether the
// endpoint responded after it had read the whole body.
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

// halfRequest is a request with an incomplete body.
type halfRequest struct {
	answer chan exchange
	abort  func()
}

// sendHalf sends half of an event. It returns after the client has read this half, or after
// Timing.Timeout.
func (c *checker) sendHalf(ev event) halfRequest {
	ctx, cancel := context.WithCancel(c.ctx)
	body, end := io.Pipe()
	s := halfRequest{answer: make(chan exchange, 1), abort: func() {
		cancel()
		_ = end.CloseWithError(io.ErrUnexpectedEOF) // the client waits until its body ends
	}}
	r := c.signed(ev.body())
	r.source = body
	go func() { s.answer <- c.exchange(ctx, r) }()
	read := make(chan struct{})
	go func() {
		_, _ = end.Write(r.body[:len(r.body)/2]) // fails after an early response
		close(read)
	}()
	select {
	case <-read:
		time.Sleep(c.pause())
	case <-time.After(c.Timing.Timeout):
	}
	return s
}

// refusesHalf requires that the endpoint did not accept half an event.
func (c *checker) refusesHalf(e exchange) {
	e.abandoned = true
	c.record(e)
	if e.accepted() {
		c.reportf("accepts half an event: %s", c.describe(e))
	}
}
