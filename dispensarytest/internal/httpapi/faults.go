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

// injection applies the faults of an operation to a request.
type injection struct {
	*call
	w     http.ResponseWriter
	token *tokens.AccessToken // of the request, valid or not, or nil if it is unknown
}

// injectFaults waits, drops the connection, rejects the request, or returns a writer that damages
// the response.
func (c *call) injectFaults(w http.ResponseWriter) (http.ResponseWriter, error) {
	if !c.api.Faults.Any() {
		return w, nil
	}
	_, value, _ := strings.Cut(c.request.Header.Get("Authorization"), " ")
	i := &injection{c, w, c.api.Tokens.Find(value)}
	if i.token != nil { // records the token of the affected request
		c.record.TokenID, c.record.UserID = i.token.ID, i.token.Grant.User.ID
	}
	return i.run()
}

func (i *injection) run() (http.ResponseWriter, error) {
	if f, fires := i.fire(model.EffectLatency); fires {
		// The wait counts from the time at which the fault fired. A test can thus see it fire
		// and advance the clock by the delay to end the wait, even before the wait begins.
		i.pause(i.now.Add(f.Delay))
		i.now = i.api.Clock.Now()
	}
	if !i.op.Open {
		i.loseToken()
	}
	if f, fires := i.fire(model.EffectErrorStatus, model.EffectTooManyRequests, model.EffectRateLimit, model.EffectProxyError, model.EffectDropBeforeCommit); fires {
		if f.Effect == model.EffectDropBeforeCommit {
			panic(http.ErrAbortHandler)
		}
		return i.w, i.problem(f)
	}
	f, fires := i.fire(model.EffectDropAfterCommit, model.EffectTruncatedBody, model.EffectSlowBody)
	if !fires {
		return i.w, nil
	}
	return &damagedResponse{ResponseWriter: i.w, injection: i, fault: f}, nil
}

// pause waits until the platform's clock reaches a time. If the caller leaves first, it gets
// no response.
func (i *injection) pause(until time.Time) {
	if !i.api.Clock.Wait(i.request.Context().Done(), i.api.Closed, until) {
		panic(http.ErrAbortHandler)
	}
}

func (i *injection) fire(effects ...model.Effect) (model.Fault, bool) {
	f, fires := i.api.Faults.Fire(i.op.ID, i.now, effects...)
	if fires {
		i.record.Faults = append(i.record.Faults, f.Effect)
	}
	return f, fires
}

// loseToken expires or invalidates the token of the request.
func (i *injection) loseToken() {
	if i.token == nil {
		return
	}
	f, fires := i.fire(model.EffectTokenExpired, model.EffectTokenInvalidated)
	switch {
	case !fires:
	case f.Effect == model.EffectTokenExpired:
		i.api.Tokens.ExpireAt(i.token, i.now)
	default:
		i.api.Tokens.EndConsent(i.token)
	}
}

// problem returns the rejection that a fault prescribes.
func (i *injection) problem(f model.Fault) error {
	switch f.Effect {
	case model.EffectProxyError:
		// A request that never reached the platform has no request id.
		i.w.Header().Del("X-Request-Id")
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
		if i.op.ID == "oauth.token" || i.op.ID == "oauth.revoke" {
			p.code = oauthCode(f.Status)
		}
		return p
	}
	p := problemOf(http.StatusTooManyRequests, "Rate limit exceeded")
	if f.RetryAfter > 0 && !(f.Effect == model.EffectRateLimit && f.Silent) {
		i.record.RetryAfter = f.RetryAfter.Truncate(time.Second)
		if i.record.RetryAfter < f.RetryAfter {
			i.record.RetryAfter += time.Second
		}
		p.header = [2]string{"Retry-After", strconv.Itoa(int(i.record.RetryAfter / time.Second))}
		if f.RetryAfterDate {
			p.header[1] = i.now.Add(i.record.RetryAfter).UTC().Format(http.TimeFormat)
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
	injection *injection
	fault     model.Fault
	written   int
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
			a.injection.pause(a.injection.api.Clock.Now().Add(a.fault.Delay))
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
