package contract

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Exchange is a request and its response, with the bodies read. Its messages hold
// tokens and patients' data: print the violations, not the exchange.
type Exchange struct {
	Request      *http.Request
	RequestBody  []byte
	Response     *http.Response
	ResponseBody []byte
}

// Recorder is an [http.RoundTripper] that keeps what passes through it. It is safe for
// concurrent use. Requests that get no response are not kept.
type Recorder struct {
	Base http.RoundTripper // nil is [http.DefaultTransport]

	mu        sync.Mutex
	exchanges []Exchange
}

// RoundTrip sends the request and keeps the exchange. The response's body is read to its
// end before it is handed on.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close() // it was read to its end
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	base := r.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end, or failed
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	kept := *resp
	kept.Header = resp.Header.Clone()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, Exchange{Request: sent, RequestBody: body, Response: &kept, ResponseBody: answer})
	return resp, nil
}

// Exchanges returns what was kept so far, in the order of the responses.
func (r *Recorder) Exchanges() []Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.exchanges)
}

// Identify finds the operation of a request by its method and path, whatever the base
// address; false when the API has none.
func (v *Validator) Identify(req *http.Request) (string, bool) {
	var best *operation
	for _, name := range v.Operations() {
		op := v.operations[name]
		if _, matches := op.match(req.URL.EscapedPath()); !matches || op.route.Method != req.Method {
			continue
		}
		if best == nil || op.moreSpecific(best) {
			best = op
		}
	}
	if best == nil {
		return "", false
	}
	return best.name, true
}

// moreSpecific prefers the longer route, and among equals the one with fewer parameters.
func (o *operation) moreSpecific(other *operation) bool {
	if len(o.segments) != len(other.segments) {
		return len(o.segments) > len(other.segments)
	}
	return strings.Count(o.route.Path, "{") < strings.Count(other.route.Path, "{")
}
