package schedule

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"time"
)

// Transport returns a network transport for the process, with each request as a call. name
// returns the name of a request for the story. Different requests must have different names. If
// the name is "", the request passes.
func (p *Process) Transport(base http.RoundTripper, name func(r *http.Request, body []byte) string) http.RoundTripper {
	return &transport{p, base, name}
}

type transport struct {
	process *Process
	base    http.RoundTripper
	name    func(*http.Request, []byte) string
}

var networkFates = []Fate{Refused, Dropped, AnswerLost, AnswerLost, Doubled, Unavailable}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	send := func() (*http.Response, error) {
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		response, err := t.base.RoundTrip(again)
		if err != nil {
			return nil, err
		}
		return whole(response)
	}
	name := t.name(r, body)
	if name == "" {
		return send()
	}
	var unavailable *http.Response
	call := Spec{Name: name, Fates: networkFates, Fail: func(f Fate) error {
		switch f {
		case Refused:
			return networkError("dial", "connect", syscall.ECONNREFUSED)
		case Unavailable:
			unavailable = answer(r, http.StatusServiceUnavailable)
			return nil
		}
		return networkError("read", "read", syscall.ECONNRESET)
	}}
	response, err := Do(r.Context(), t.process, call, send)
	if unavailable != nil {
		return unavailable, nil
	}
	return response, err
}

// unanswered is the timeout of a request to a process killed before its response.
const unanswered = time.Hour

// Serve sends a request to a handler of the process, like the network. If the process is dead, the
// connection is refused. If the process is killed before the handler returns, the request gets no
// response and ends with its context or after an hour. Serve calls answered in the process before
// it sends the response, unless answered is nil.
func (p *Process) Serve(handler http.Handler, r *http.Request, answered func(body []byte, status int)) (*http.Response, error) {
	if !p.Alive() {
		return nil, networkError("dial", "connect", syscall.ECONNREFUSED)
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	answers := make(chan *http.Response, 1)
	go func() { // a call of the handler ends this goroutine if the process is killed
		incoming := r.Clone(r.Context())
		incoming.Body = io.NopCloser(bytes.NewReader(body))
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, incoming)
		if !p.Alive() {
			return
		}
		if answered != nil {
			answered(body, recorder.Code)
		}
		answers <- recorder.Result()
	}()
	patience := time.NewTimer(unanswered)
	defer patience.Stop()
	select {
	case response := <-answers:
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-patience.C:
		return nil, fmt.Errorf("schedule: no response from %s", p.Name)
	}
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }()
	return io.ReadAll(r.Body)
}

// whole reads a response to its end and returns it with the body in memory.
func whole(response *http.Response) (*http.Response, error) {
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, err
}

// answer returns a response of an intermediary between the two sides.
func answer(r *http.Request, status int) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(bytes.NewReader([]byte("<html>"))), ContentLength: 6, Request: r,
	}
}

func networkError(op, call string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, errno)}
}
