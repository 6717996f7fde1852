package dispensarytest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Defaults of effects that can do without their field.
const (
	slowPiece    = 64
	proxyStatus  = http.StatusBadGateway
	signatureLag = 10 * time.Minute
	overtaken    = time.Minute
)

// meetFaults lets the faults of an operation befall a request: it waits, breaks
// off, refuses, or comes back with a writer that spoils the answer.
func (c *call) meetFaults(w http.ResponseWriter) (http.ResponseWriter, error) {
	if !c.srv.faults.any.Load() {
		return w, nil
	}
	token := c.bearer()
	if token != nil { // so that the journal knows whom a fault has met
		c.record.TokenID, c.record.UserID = token.id, token.grant.user.ID
	}
	if f, fires := c.fire(Latency); fires {
		c.pause(f.Delay)
		c.now = c.srv.clock.Now()
	}
	if !c.op.open {
		c.loseToken(token)
	}
	if f, fires := c.fire(ErrorStatus, TooManyRequests, RateLimit, ProxyError, DropBeforeCommit); fires {
		if f.Effect == DropBeforeCommit {
			panic(http.ErrAbortHandler)
		}
		return w, c.faultProblem(f, w)
	}
	f, fires := c.fire(DropAfterCommit, TruncatedBody, SlowBody)
	if !fires {
		return w, nil
	}
	return &spoiltAnswer{ResponseWriter: w, call: c, fault: f}, nil
}

func (c *call) fire(effects ...Effect) (Fault, bool) {
	f, fires := c.srv.faults.fire(c.op.id, c.now, effects...)
	if fires {
		c.record.Faults = append(c.record.Faults, f.Effect)
	}
	return f, fires
}

// pause waits on the platform's clock. A caller who leaves meanwhile gets no
// answer any more.
func (c *call) pause(d time.Duration) {
	if !c.srv.clock.Wait(c.r.Context().Done(), c.srv.net.Context.Done(), d) {
		panic(http.ErrAbortHandler)
	}
}

// bearer is the token that the request carries, good or not; nil if nobody knows it.
func (c *call) bearer() *accessToken {
	_, value, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	c.srv.tokens.mu.RLock()
	defer c.srv.tokens.mu.RUnlock()
	return c.srv.tokens.access[value]
}

// loseToken ends the token that the request carries.
func (c *call) loseToken(token *accessToken) {
	if token == nil {
		return
	}
	f, fires := c.fire(TokenExpired, TokenInvalidated)
	c.srv.tokens.mu.Lock()
	defer c.srv.tokens.mu.Unlock()
	switch {
	case !fires:
	case f.Effect == TokenExpired:
		token.expires = c.now
	default:
		token.grant.obsolete = true
	}
}

// faultProblem is the refusal that a fault asks for.
func (c *call) faultProblem(f Fault, w http.ResponseWriter) error {
	switch f.Effect {
	case ProxyError:
		// What never reached the platform has no request id of its own.
		w.Header().Del("X-Request-Id")
		p := problemOf(proxyStatus, "a proxy answered in the platform's place")
		if f.Status != 0 {
			p.status = f.Status
		}
		p.html, p.injected = true, true
		return p
	case ErrorStatus:
		messages := f.Messages
		if len(messages) == 0 {
			messages = []string{or(http.StatusText(f.Status), "Error")}
		}
		p := problemOf(f.Status, messages...)
		p.injected = true
		if c.op.id == "oauth.token" || c.op.id == "oauth.revoke" {
			p.code = oauthCode(f.Status)
		}
		return p
	}
	p := problemOf(http.StatusTooManyRequests, "Rate limit exceeded")
	if f.RetryAfter > 0 && !(f.Effect == RateLimit && f.Silent) {
		c.record.RetryAfter = f.RetryAfter.Truncate(time.Second)
		if c.record.RetryAfter < f.RetryAfter {
			c.record.RetryAfter += time.Second
		}
		p.header = [2]string{"Retry-After", strconv.Itoa(int(c.record.RetryAfter / time.Second))}
		if f.RetryAfterDate {
			p.header[1] = c.now.Add(c.record.RetryAfter).UTC().Format(http.TimeFormat)
		}
	}
	return p
}

// oauthCode is what the token endpoint calls a status; "" has no code.
func oauthCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_grant"
	case http.StatusUnauthorized:
		return "invalid_client"
	}
	return ""
}

// writeProxyPage is what a proxy says when the platform does not.
func writeProxyPage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<html>\n<head><title>%[1]d %[2]s</title></head>\n<body><center><h1>%[1]d %[2]s</h1></center></body>\n</html>\n", status, http.StatusText(status))
}

// spoiltAnswer is an answer that does not arrive, or not as it was written.
type spoiltAnswer struct {
	http.ResponseWriter
	call    *call
	fault   Fault
	written int
}

// WriteHeader is the first moment at which a handler has done its work.
func (a *spoiltAnswer) WriteHeader(status int) {
	if a.fault.Effect == DropAfterCommit {
		panic(http.ErrAbortHandler)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *spoiltAnswer) Write(p []byte) (int, error) {
	switch a.fault.Effect {
	case DropAfterCommit:
		panic(http.ErrAbortHandler)
	case TruncatedBody:
		keep := a.fault.Bytes
		if keep == 0 {
			keep = len(p) / 2
		}
		_, _ = a.ResponseWriter.Write(p[:min(keep, len(p))]) // broken off either way
		a.flush()
		panic(http.ErrAbortHandler)
	}
	return a.trickle(p)
}

func (a *spoiltAnswer) trickle(p []byte) (n int, err error) {
	size := a.fault.Bytes
	if size == 0 {
		size = slowPiece
	}
	for len(p) > 0 && err == nil {
		if a.written > 0 {
			a.call.pause(a.fault.Delay)
		}
		piece := p[:min(size, len(p))]
		var wrote int
		wrote, err = a.ResponseWriter.Write(piece)
		a.flush()
		p, n, a.written = p[wrote:], n+wrote, a.written+wrote
	}
	return n, err
}

func (a *spoiltAnswer) flush() {
	_ = http.NewResponseController(a.ResponseWriter).Flush() // what cannot be flushed arrives later
}
