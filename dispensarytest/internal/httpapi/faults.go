package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Defaults of optional fields.
const (
	slowPiece   = 64
	proxyStatus = http.StatusBadGateway
)

// meetFaults applies the faults of an operation to a request. It waits, drops the connection,
// rejects the request, or returns a writer that damages the response.
func (c *call) meetFaults(w http.ResponseWriter) (http.ResponseWriter, error) {
	if !c.api.Faults.Any() {
		return w, nil
	}
	token := c.bearer()
	if token != nil { // records the token of the affected request
		c.record.TokenID, c.record.UserID = token.ID, token.Grant.User.ID
	}
	if f, fires := c.fire(model.EffectLatency); fires {
		// The wait counts from the time at which the fault fired. A test can thus see it fire
		// and advance the clock by the delay to end the wait, even before the wait begins.
		c.pause(c.now.Add(f.Delay))
		c.now = c.api.Clock.Now()
	}
	if !c.op.Open {
		c.loseToken(token)
	}
	if f, fires := c.fire(model.EffectErrorStatus, model.EffectTooManyRequests, model.EffectRateLimit, model.EffectProxyError, model.EffectDropBeforeCommit); fires {
		if f.Effect == model.EffectDropBeforeCommit {
			panic(http.ErrAbortHandler)
		}
		return w, c.faultProblem(f, w)
	}
	f, fires := c.fire(model.EffectDropAfterCommit, model.EffectTruncatedBody, model.EffectSlowBody)
	if !fires {
		return w, nil
	}
	return &damagedResponse{ResponseWriter: w, call: c, fault: f}, nil
}

func (c *call) fire(effects ...model.Effect) (model.Fault, bool) {
	f, fires := c.api.Faults.Fire(c.op.ID, c.now, effects...)
	if fires {
		c.record.Faults = append(c.record.Faults, f.Effect)
	}
	return f, fires
}

// pause waits until the platform's clock reaches a time. If the caller leaves first, it gets
// no response.
func (c *call) pause(until time.Time) {
	if !c.api.Clock.Wait(c.request.Context().Done(), c.api.Closed, until) {
		panic(http.ErrAbortHandler)
	}
}

// bearer returns the token of the request, valid or not, or nil if it is unknown.
func (c *call) bearer() *tokens.AccessToken {
	_, value, _ := strings.Cut(c.request.Header.Get("Authorization"), " ")
	return c.api.Tokens.Find(value)
}

// loseToken expires or invalidates the token of the request.
func (c *call) loseToken(token *tokens.AccessToken) {
	if token == nil {
		return
	}
	f, fires := c.fire(model.EffectTokenExpired, model.EffectTokenInvalidated)
	switch {
	case !fires:
	case f.Effect == model.EffectTokenExpired:
		c.api.Tokens.ExpireAt(token, c.now)
	default:
		c.api.Tokens.EndConsent(token)
	}
}

// faultProblem returns the rejection that a fault prescribes.
func (c *call) faultProblem(f model.Fault, w http.ResponseWriter) error {
	switch f.Effect {
	case model.EffectProxyError:
		// A request that never reached the platform has no request id.
		w.Header().Del("X-Request-Id")
		p := problemOf(cmp.Or(f.Status, proxyStatus), "a proxy responded in the platform's place")
		p.html, p.injected = true, true
		return p
	case model.EffectErrorStatus:
		messages := f.Messages
		if len(messages) == 0 {
			messages = []string{cmp.Or(http.StatusText(f.Status), "Error")}
		}
		p := problemOf(f.Status, messages...)
		p.injected = true
		if c.op.ID == "oauth.token" || c.op.ID == "oauth.revoke" {
			p.code = oauthCode(f.Status)
		}
		return p
	}
	p := problemOf(http.StatusTooManyRequests, "Rate limit exceeded")
	if f.RetryAfter > 0 && !(f.Effect == model.EffectRateLimit && f.Silent) {
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

// oauthCode returns the token endpoint's error code for a status, or "".
func oauthCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_grant"
	case http.StatusUnauthorized:
		return "invalid_client"
	}
	return ""
}

// writeProxyPage writes the error page of a proxy.
func writeProxyPage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<html>\n<head><title>%[1]d %[2]s</title></head>\n<body><center><h1>%[1]d %[2]s</h1></center></body>\n</html>\n", status, http.StatusText(status))
}

// damagedResponse is a response that is lost or damaged.
type damagedResponse struct {
	http.ResponseWriter
	call    *call
	fault   model.Fault
	written int
}

// WriteHeader is the first call after the handler has done its work.
func (a *damagedResponse) WriteHeader(status int) {
	if a.fault.Effect == model.EffectDropAfterCommit {
		panic(http.ErrAbortHandler)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *damagedResponse) Write(p []byte) (int, error) {
	switch a.fault.Effect {
	case model.EffectDropAfterCommit:
		panic(http.ErrAbortHandler)
	case model.EffectTruncatedBody:
		keep := cmp.Or(a.fault.Bytes, len(p)/2)
		_, _ = a.ResponseWriter.Write(p[:min(keep, len(p))]) // the connection is dropped in any case
		a.flush()
		panic(http.ErrAbortHandler)
	}
	return a.trickle(p)
}

func (a *damagedResponse) trickle(p []byte) (n int, err error) {
	size := cmp.Or(a.fault.Bytes, slowPiece)
	for len(p) > 0 && err == nil {
		if a.written > 0 {
			a.call.pause(a.call.api.Clock.Now().Add(a.fault.Delay))
		}
		piece := p[:min(size, len(p))]
		var wrote int
		wrote, err = a.ResponseWriter.Write(piece)
		a.flush()
		p, n, a.written = p[wrote:], n+wrote, a.written+wrote
	}
	return n, err
}

func (a *damagedResponse) flush() {
	_ = http.NewResponseController(a.ResponseWriter).Flush() // without support for flushing, the bytes arrive later
}
