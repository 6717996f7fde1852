package receivercheck

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
)

func bodyCases() []testCase {
	return []testCase{
		{
			name: "Bodies/Malformed", run: (*checker).malformedBody,
			consequence: "a body that cannot be read breaks the process, or is acknowledged, and its content is lost.",
			fix:         "answer a signed body that holds no event with 400: it stays in the platform's delivery log, and the event in its lists.",
		},
		{
			name: "Bodies/Large", run: (*checker).large,
			consequence: "one big event, from the platform or from anyone else, breaks the process or holds it up.",
			fix:         "bound what is read (in Go http.MaxBytesReader), handle what fits, and answer what does not with 413.",
		},
		{
			name: "Bodies/Limit", run: (*checker).limit,
			consequence: "anyone who knows the address can fill the memory of the process, with a few requests that are not even signed.",
			fix:         "stop reading at a limit, a megabyte or a few of them (in Go http.MaxBytesReader), and answer with 413.",
		},
		{
			name: "Bodies/Pieces", run: (*checker).pieces,
			consequence: "events fail at random: a network, or a proxy, delivers bodies in pieces and without a length.",
			fix:         "read the body to its end (in Go io.ReadAll), and do not rely on Content-Length.",
		},
		{
			name: "Bodies/Characters", run: (*checker).characters,
			consequence: "now and then an event fails, of a patient called Zoë for example: a packet ends within a character, and the halves are decoded each by itself.",
			fix:         "put the bytes of a body together and verify them before anything is decoded (in Node Buffer.concat, or express.raw; not body += chunk).",
		},
		{
			name: "Bodies/BrokenOff", run: (*checker).brokenOff,
			consequence: "a caller who sends half a body holds the receiver up for all others, or makes it handle half an event.",
			fix:         "hold no lock while a body is read, stop when reading fails, and verify before anything else.",
		},
		{
			name: "Bodies/SlowLoris", needs: needsBodyTimeout, run: (*checker).slowLoris,
			consequence: "a caller who opens connections and sends nothing can exhaust the server.",
			fix:         "give the server a time-out for reading (in Go http.Server.ReadTimeout).",
		},
	}
}

func (c *checker) malformedBody() {
	ev := c.newEvent()
	whole := string(ev.body())
	for what, body := range sortedByKey(map[string]string{
		"that is no JSON":             "Zephyrine Quillfeather",
		"that breaks off":             whole[:len(whole)-9],
		"with something behind it":    whole + "}",
		"of two events":               whole + whole,
		"that is null":                "null",
		"that is a list":              "[" + whole + "]",
		"that is an empty object":     "{}",
		"whose event is null":         `{"event":null}`,
		"whose event is a word":       `{"event":"patient.updated"}`,
		"whose event is empty":        `{"event":{}}`,
		"whose event has no id":       string(c.newEvent().edited(func(event map[string]any) { delete(event, "id") })),
		"of a hundred thousand lists": strings.Repeat("[", 100_000),
		"that is not UTF-8":           "\xff\xfe\x00{",
	}) {
		e := c.deliver([]byte(body))
		switch {
		case e.err != nil:
			c.reportf("a signed body %s %s", what, c.describe(e))
		case e.status/100 == 2:
			c.reportf("a signed body %s %s: an event that cannot be read is lost", what, c.describe(e))
		}
		c.refuses("an unsigned body "+what, c.post(request{body: []byte(body)}))
	}
	c.neverHandled(ev)
	c.accepts("an event after all these", c.deliver(c.newEvent().body()))
}

// large is one megabyte, which is more than any event has been seen to have.
func (c *checker) large() {
	ev := c.newEvent()
	body := ev.edited(func(event map[string]any) {
		event["data"].(map[string]any)["note"] = strings.Repeat("magnesium ", 100_000)
	})
	e := c.deliver(body)
	switch {
	case e.timedOut() || e.err != nil && c.watch != nil:
		c.reportf("a signed event of %d bytes %s", len(body), c.describe(e))
	case e.err == nil && e.status/100 == 2:
		c.handled(ev, 1)
	case e.err == nil && e.status/100 == 5:
		c.reportf("a signed event of %d bytes %s; handle it, or answer with 413", len(body), c.describe(e))
	}
	// On a socket, an answer that is sent before the body was read may be lost.
	e = c.post(request{body: body})
	if e.err == nil || e.timedOut() || c.watch != nil {
		c.refuses("an unsigned megabyte", e)
	}
	c.accepts("an event after these", c.deliver(c.newEvent().body()))
}

// beyond is more than a sensible limit.
const beyond = 32 << 20

// limit sends a body whose signature is wrong: an endpoint that refuses it for that has
// read all of it. It sends one in chunks and one with its length, because an endpoint can
// bound either and read the other.
func (c *checker) limit() {
	for _, framed := range []struct {
		how    string
		length int64
	}{{"in chunks", 0}, {"with a Content-Length", beyond}} {
		if e, whole := c.flood(framed.length); whole && (e.unauthorized() || e.status/100 == 2) {
			c.reportf("a body of %d megabytes %s, from a sender whose signature does not verify, was read to its end", beyond>>20, framed.how)
		}
	}
}

// flood sends a body beyond a sensible limit, and reports whether it was answered after
// all of it was read.
func (c *checker) flood(length int64) (e exchange, whole bool) {
	ctx, cancel := context.WithTimeout(c.ctx, max(c.Timing.Timeout, c.Timing.Patience))
	defer cancel()
	source := &flood{}
	source.left.Store(beyond)
	e = c.exchange(ctx, request{source: source, length: length, signature: signature.Header(wrongSecret, c.Timing.Now(), nil)})
	return e, e.err == nil && source.left.Load() <= 0
}

// flood is a long body of blanks.
type flood struct{ left atomic.Int64 }

// Read implements [io.Reader].
func (f *flood) Read(to []byte) (int, error) {
	if f.left.Load() <= 0 {
		return 0, io.EOF
	}
	n := copy(to, blanks[:min(int64(len(blanks)), f.left.Load())])
	f.left.Add(-int64(n))
	return n, nil
}

var blanks = bytes.Repeat([]byte(" "), 32<<10)

func (c *checker) pieces() {
	ev := c.newEvent()
	e := c.post(request{
		source: &pieces{left: ev.body()}, signature: signature.Header(c.Secret, c.Timing.Now(), ev.body()), genuine: true,
	})
	c.takes("an event that comes in pieces, without a length,", ev, e)
}

// pieces is a body that comes 100 bytes at a time.
type pieces struct{ left []byte }

// Read implements [io.Reader].
func (p *pieces) Read(to []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.left[:min(len(p.left), 100)])
	p.left = p.left[n:]
	return n, nil
}

// characters cuts a body within characters of several bytes, and waits in between.
func (c *checker) characters() {
	ev := c.newEvent()
	body := ev.edited(func(event map[string]any) {
		event["data"].(map[string]any)["note"] = strings.Join(multiByte, " ")
	})
	source := &packets{}
	if c.watch == nil {
		// Without the pause, a slow receiver may read both parts at once.
		source.pause = min(100*time.Millisecond, c.Timing.Timeout/10)
	}
	rest := body
	for _, character := range multiByte {
		at := bytes.Index(rest, []byte(character)) + 1
		source.left, rest = append(source.left, rest[:at]), rest[at:]
	}
	source.left = append(source.left, rest)
	e := c.post(request{source: source, signature: signature.Header(c.Secret, c.Timing.Now(), body), genuine: true})
	c.takes("an event with a character whose bytes come in two packets", ev, e)
}

// multiByte are characters of two, three and four bytes.
var multiByte = []string{"ë", "李", "🌿"}

// packets is a body that comes in parts. HTTP sends what one Read returned, as a
// separate chunk or frame, before it reads again: so one part has been sent when the
// wait for the next begins.
type packets struct {
	left  [][]byte
	pause time.Duration
	begun bool
}

// Read implements [io.Reader].
func (p *packets) Read(to []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	if p.begun {
		time.Sleep(p.pause)
	}
	ev := copy(to, p.left[0])
	if p.left[0] = p.left[0][ev:]; len(p.left[0]) == 0 {
		p.left, p.begun = p.left[1:], true
	}
	return ev, nil
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
	go func() {
		s.answer <- c.exchange(ctx, request{source: body, signature: signature.Header(c.Secret, c.Timing.Now(), ev.body()), genuine: true})
	}()
	read := make(chan struct{})
	go func() {
		_, _ = end.Write(ev.body()[:len(ev.body())/2]) // fails if it is answered early
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(c.Timing.Timeout):
	}
	return s
}

func (c *checker) brokenOff() {
	ev := c.newEvent()
	half := c.sendHalf(ev)
	defer half.abort()
	c.accepts("an event, while the body of another stands still,", c.deliver(c.newEvent().body()))
	half.abort()
	e := <-half.answer
	e.abandoned = true
	c.record(e)
	if e.err == nil && e.status/100 == 2 {
		c.reportf("half an event %s", c.describe(e))
	}
	if c.watch != nil && !c.waitUntil(c.watch.idle) {
		c.reportf("the handler has not ended %s after its caller left", c.Timing.Patience)
	}
	c.neverHandled(ev)
	c.takes("the event, once it is sent whole,", ev, c.deliver(ev.body()))
}

func (c *checker) slowLoris() {
	ev := c.newEvent()
	half := c.sendHalf(ev)
	defer half.abort()
	select {
	case e := <-half.answer:
		e.abandoned = true
		c.record(e)
		if e.err == nil && e.status/100 == 2 {
			c.reportf("half an event %s", c.describe(e))
		}
	case <-time.After(c.Timing.BodyTimeout + c.Timing.Timeout):
		c.reportf("half an event keeps its connection for more than %s", c.Timing.BodyTimeout+c.Timing.Timeout)
	}
	c.neverHandled(ev)
}
