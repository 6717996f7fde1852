package receivercheck

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

var bodyCases = []testCase{
	{
		name: "Bodies/Malformed", run: (*checker).malformedBody,
		consequence: "an unreadable body crashes the process, or it is acknowledged and its content is lost",
		fix:         "respond with 400 to a signed body without an event: the body stays in the platform's delivery log, and the event in its event lists",
	},
	{
		name: "Bodies/Large", run: (*checker).large,
		consequence: "one large event, from the platform or any other sender, crashes or blocks the process",
		fix:         "limit the size of a body (in Go with http.MaxBytesReader), handle bodies within the limit, and respond with 413 to larger ones",
	},
	{
		// The signature is wrong. An endpoint that rejects it has read the whole body. The case
		// sends the body with and without a length, because an endpoint may limit only one kind.
		name: "Bodies/Limit",
		run: func(c *checker) {
			for how, length := range sortedByKey(map[string]int64{"in chunks": 0, "with a Content-Length": beyond}) {
				if e, complete := c.flood(length); complete && (e.unauthorized() || e.accepted()) {
					c.reportf("reads a body of %d megabytes %s to its end, although the signature is wrong", beyond>>20, how)
				}
			}
		},
		consequence: "anyone who knows the URL can fill the memory of the process with a few unsigned requests",
		fix:         "stop reading at a limit of one or a few megabytes (in Go with http.MaxBytesReader), and respond with 413",
	},
	{
		name: "Bodies/Pieces",
		run: func(c *checker) {
			c.takesEvent("an event sent in pieces and without a length", func(r *request) {
				r.source = c.inParts(slices.Collect(slices.Chunk(r.body, len(r.body)/3+1)))
			})
		},
		consequence: "events fail at random, because a network or a proxy delivers bodies in pieces and without a length",
		fix:         "read the body to its end (in Go with io.ReadAll), and do not rely on Content-Length",
	},
	{
		name: "Bodies/Characters", run: (*checker).characters,
		consequence: "some events fail, such as for a patient called Zoë: a packet ends within a character, and each half is decoded separately",
		fix:         "join the bytes of a body and verify them before decoding (in Node with Buffer.concat or express.raw, not body += chunk)",
	},
	{
		name: "Bodies/BrokenOff",
		run: func(c *checker) {
			ev := c.newEvent()
			half := c.sendHalf(ev)
			defer half.abort()
			c.accepts("an event while the body of another is incomplete", c.deliver(c.newEvent().body()))
			half.abort()
			c.rejectsHalf(<-half.response)
			if c.watch != nil && !c.waitUntil(c.watch.idle) {
				c.reportf("keeps the handler running %s after the caller disconnected", c.Timing.Patience)
			}
			c.neverHandled(ev)
			c.takes("the complete event", ev, c.deliver(ev.body()))
		},
		consequence: "a caller that sends half a body blocks the receiver for all others, or makes it handle half an event",
		fix:         "hold no lock while reading a body, stop if reading fails, and verify before anything else",
	},
	{
		name: "Bodies/SlowLoris", needs: needsBodyTimeout,
		run: func(c *checker) {
			ev := c.newEvent()
			half := c.sendHalf(ev)
			defer half.abort()
			select {
			case e := <-half.response:
				c.rejectsHalf(e)
			case <-time.After(c.Timing.BodyTimeout + c.Timing.Timeout):
				c.reportf("keeps the connection of half an event open for more than %s", c.Timing.BodyTimeout+c.Timing.Timeout)
			}
			c.neverHandled(ev)
		},
		consequence: "a caller that opens connections and sends no data can exhaust the server",
		fix:         "set a read timeout on the server (in Go http.Server.ReadTimeout)",
	},
}

func (c *checker) malformedBody() {
	ev := c.newEvent()
	text := string(ev.body())
	for what, body := range sortedByKey(map[string]string{
		"of plain text":               "Zephyrine Quillfeather",
		"with a truncated event":      text[:len(text)-9],
		"with text after the event":   text + "}",
		"of two events":               text + text,
		"of null":                     "null",
		"of a list":                   "[" + text + "]",
		"of an empty object":          "{}",
		"with a null event":           `{"event":null}`,
		"with a string as its event":  `{"event":"patient.updated"}`,
		"with an empty event":         `{"event":{}}`,
		"with an event without an ID": string(c.newEvent().edited(func(event map[string]any) { delete(event, "id") })),
		"of 100,000 nested lists":     strings.Repeat("[", 100_000),
		"of invalid UTF-8":            "\xff\xfe\x00{",
	}) {
		e := c.deliver([]byte(body))
		switch {
		case e.err != nil:
			c.reportf("does not reject a signed body %s but %s", what, c.describe(e))
		case e.accepted():
			c.reportf("accepts a signed body %s, so its event is lost: %s", what, c.describe(e))
		}
		c.rejects("an unsigned body "+what, c.post(request{body: []byte(body)}))
	}
	c.neverHandled(ev)
	c.accepts("an event after the malformed bodies", c.deliver(c.newEvent().body()))
}

// large sends an event of one megabyte, which is larger than any observed event.
func (c *checker) large() {
	ev := c.newEvent()
	body := ev.edited(note(strings.Repeat("magnesium ", 100_000)))
	e := c.deliver(body)
	switch {
	case e.timedOut() || e.err != nil && c.watch != nil:
		c.reportf("neither accepts nor rejects a signed event of %d bytes but %s", len(body), c.describe(e))
	case e.accepted():
		c.handled(ev, 1)
	case e.err == nil && e.status/100 == 5:
		c.reportf("fails on a signed event of %d bytes: %s; handle it, or respond with 413", len(body), c.describe(e))
	}
	// On a socket, a response sent before the body was read may be lost.
	e = c.post(request{body: body})
	if e.err == nil || e.timedOut() || c.watch != nil {
		c.rejects("an unsigned event of one megabyte", e)
	}
	c.accepts("an event after the large bodies", c.deliver(c.newEvent().body()))
}

// note returns a change that adds a text to the data of an event.
func note(text string) func(event map[string]any) {
	return func(event map[string]any) { event["data"].(map[string]any)["note"] = text }
}

// characters splits a body within characters of two, three and four bytes, and pauses between
// the parts.
func (c *checker) characters() {
	multiByte := []string{"ë", "李", "🌿"}
	ev := c.newEvent()
	r := c.signed(ev.edited(note(strings.Join(multiByte, " "))))
	var left [][]byte
	rest := r.body
	for _, character := range multiByte {
		at := bytes.Index(rest, []byte(character)) + 1
		left, rest = append(left, rest[:at]), rest[at:]
	}
	r.source = c.inParts(append(left, rest))
	c.takes("an event with a character split across two packets", ev, c.post(r))
}

// rejectsHalf requires that the endpoint did not accept half an event.
func (c *checker) rejectsHalf(e exchange) {
	e.abandoned = true
	c.record(e)
	if e.accepted() {
		c.reportf("accepts half an event: %s", c.describe(e))
	}
}
