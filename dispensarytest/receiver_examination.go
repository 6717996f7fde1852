package dispensarytest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/leak"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
)

// examination is a receiver that is being examined.
type examination struct {
	Receiver
	ctx    context.Context
	srv    *Server // where the events come from, and whose network leads to Handler
	client *http.Client
	target string
	watch  *watch // of Handler; nil with URL

	samples map[string]Event // of each type
	patient leak.Search      // what the samples say of people

	current string // the case under way
	dead    string // why there is no use in going on
	halted  string // why only the cases that judge others are run
	found   []string
	skipped string         // why the case under way found nothing out
	pace    string         // how long a receiver takes that is too slow for everything
	ledger  map[string]int // how often each event may be handled

	mu          sync.Mutex
	seen        []exchange
	unreachable bool // for the last request
}

// parcel is a request to be made.
type parcel struct {
	method    string // "" is POST
	body      []byte
	source    io.Reader // in place of body, for one that takes its time
	signature string    // the header; "" is none
	header    string    // its name, as it is written; "" is that of net/http
	genuine   bool      // signed as the platform signs, so that the challenge may be told
}

// exchange is a request that was made, and what came of it.
type exchange struct {
	parcel
	during string // the case
	status int    // 0 if there was no answer
	header http.Header
	answer string
	err    error
	left   bool // the examination broke it off
}

// newExamination prepares everything, and asks the receiver nothing yet.
func newExamination(ctx context.Context, r Receiver) (*examination, error) {
	r, err := r.withDefaults()
	if err != nil {
		return nil, err
	}
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // it never fails
	srv, err := Start(WithInMemory(), WithSeed(binary.BigEndian.Uint64(seed[:])), WithIntegrations(2))
	if err != nil {
		return nil, err
	}
	x := &examination{Receiver: r, ctx: ctx, srv: srv, target: r.URL, ledger: make(map[string]int)}
	client := *r.Client
	if r.Handler != nil {
		x.watch = &watch{handler: r.Handler}
		x.target = receiverOrigin + r.Path
		client = http.Client{Transport: memhttp.Transport{Network: srv.net}}
		err = srv.Host(receiverOrigin, x.watch)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	x.client = &client
	if err := errors.Join(err, x.collect()); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

func (x *examination) close() { _ = x.srv.Close() } // it was not listening

// run runs a case.
func (x *examination) run(chapter string, c receiverCase) ReceiverVerdict {
	v := ReceiverVerdict{Case: chapter + "/" + c.name, Consequence: c.consequence, Fix: c.fix}
	reason := or(x.dead, x.missing(c.needs))
	if !c.judges {
		reason = or(or(x.dead, x.halted), reason)
	}
	if v.Skipped = reason; reason != "" {
		return v
	}
	x.current, x.found, x.skipped = v.Case, nil, ""
	c.run(x)
	if x.unreachable && x.dead == "" {
		x.dead = fmt.Sprintf("nothing listens at %s any more, since %s", x.target, v.Case)
	}
	switch v.Findings = x.found; {
	case v.Failed():
	case !c.judges:
		v.Skipped = or(x.skipped, x.halted)
	default:
		v.Skipped = x.skipped
	}
	return v
}

// post sends a request and waits for the answer, for as long as the platform
// does.
func (x *examination) post(p parcel) exchange {
	ctx, cancel := context.WithTimeout(x.ctx, x.Timeout)
	defer cancel()
	e := x.exchange(ctx, p)
	x.keep(e)
	return e
}

// exchange sends a request, and ends with its context.
func (x *examination) exchange(ctx context.Context, p parcel) exchange {
	e := exchange{parcel: p, during: x.current}
	body := p.source
	if body == nil {
		body = bytes.NewReader(p.body)
	}
	req, err := http.NewRequestWithContext(ctx, or(p.method, http.MethodPost), x.target, body)
	if err != nil {
		e.err = err
		return e
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dispensary-webhooks/2")
	if p.signature != "" {
		req.Header[or(p.header, http.CanonicalHeaderKey("SVC-Signature"))] = []string{p.signature}
	}
	resp, err := x.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		var answer []byte
		answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		e.status, e.header, e.answer = resp.StatusCode, maps.Clone(resp.Header), string(answer)
	}
	e.err = err
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.err = context.DeadlineExceeded
	}
	return e
}

// keep remembers an exchange for the chapter Always.
func (x *examination) keep(e exchange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen = append(x.seen, e)
	op, ok := errors.AsType[*net.OpError](e.err)
	if x.unreachable = ok && op.Op == "dial"; x.unreachable && len(x.seen) == 1 {
		x.dead = fmt.Sprintf("nothing listens at %s", x.target)
	}
}

// deliver sends a body as the platform does: signed, just now.
func (x *examination) deliver(body []byte) exchange {
	return x.post(parcel{body: body, signature: signedHeader(x.Secret, x.Now(), body), genuine: true})
}

// timedOut reports that the platform would have stopped waiting.
func (e exchange) timedOut() bool { return errors.Is(e.err, context.DeadlineExceeded) }

// describe says what came of a request, without secrets.
func (x *examination) describe(e exchange) string {
	switch {
	case e.timedOut():
		return fmt.Sprintf("was not answered within %s", x.Timeout)
	case e.err != nil:
		reason := e.err
		if named, ok := errors.AsType[*url.Error](e.err); ok {
			reason = named.Err // without the address, which is always the same
		}
		return "got no answer: " + reason.Error()
	}
	return fmt.Sprintf("was answered with %d %s", e.status, x.show(e.answer))
}

// show quotes an answer, in short and with names in place of secrets.
func (x *examination) show(answer string) string {
	pairs := []string{x.Secret, "<the webhook secret>", x.Challenge, "<the challenge token>"}
	if x.OldSecret != "" {
		pairs = append(pairs, x.OldSecret, "<the old webhook secret>")
	}
	answer = strings.NewReplacer(pairs...).Replace(strings.TrimSpace(answer))
	if len(answer) > 200 {
		answer = answer[:200] + "…"
	}
	if strconv.CanBackquote(answer) {
		return answer
	}
	return strconv.Quote(answer)
}

// until waits for something that the receiver does in its own time.
func (x *examination) until(done func() bool) bool {
	end := time.NewTimer(x.Patience)
	defer end.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-end.C:
			return done()
		case <-x.ctx.Done():
			return false
		}
	}
	return true
}
