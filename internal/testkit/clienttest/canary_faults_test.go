package clienttest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// wire is a transport that injects faults. It records every word of the requests and repeats
// as much as possible in its faults.
type wire struct {
	base   http.RoundTripper
	fault  func(*exchanged) (*http.Response, error) // nil lets the request through
	cancel func()                                   // cancels the call's context

	mu    sync.Mutex
	words map[string]bool
	last  []byte // body of the last successful response
}

// exchanged is a request, all of its texts, and the last successful response of the platform.
type exchanged struct {
	request  *http.Request
	echo     string
	response []byte
	cancel   func()
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listen(r, body)
	if w.fault == nil {
		return w.pass(r)
	}
	return w.fault(&exchanged{
		request: r, response: w.last, cancel: w.cancel,
		echo: strings.Join([]string{canary, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("X-Svc-Clinic-Key"), string(body)}, " "),
	})
}

func (w *wire) pass(r *http.Request) (*http.Response, error) {
	response, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	if response.StatusCode < 300 {
		w.last = body
	}
	return response, err
}

// public are the members of requests without personal data.
var public = []string{
	"page[number]", "page[size]", "sort_by", "order_by", "state", "current_state", "ownership_type", "type", "event_type",
	"available", "clinic_permitted", "successfully_delivered", "grant_type", "client_id", "redirect_uri", "gender",
	"frequency", "format", "amount", "duration",
}

// listen records the words of a request.
func (w *wire) listen(r *http.Request, body []byte) {
	w.remember("", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	w.remember("", r.Header.Get("X-Svc-Clinic-Key"))
	if strings.Count(r.URL.Path, "-") > 3 { // the path contains an id
		w.remember("", r.URL.Path)
	}
	for name, values := range r.URL.Query() {
		for _, value := range values {
			w.remember(name, value)
		}
	}
	var tree any
	if json.Unmarshal(body, &tree) == nil {
		leaves("", tree, func(name string, leaf any) any {
			if text, ok := leaf.(string); ok {
				w.remember(name, text)
			}
			return leaf
		})
	}
}

func (w *wire) remember(name, word string) {
	if slices.Contains(public, name) {
		return
	}
	if len(word) > 2 {
		w.words[word] = true
	}
}

// leaves replaces the scalars of a JSON value with the results of change.
func leaves(name string, value any, change func(name string, leaf any) any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = leaves(key, inner, change)
		}
		return value
	case []any:
		for i, inner := range value {
			value[i] = leaves(name, inner, change)
		}
		return value
	}
	return change(name, value)
}

// marked returns the platform's response with every scalar changed.
func (e *exchanged) marked(change func(leaf any) any) []byte {
	var tree any
	if json.Unmarshal(e.response, &tree) != nil || len(e.response) < 3 {
		tree = map[string]any{"oauth": map[string]any{"access_token": canary}} // a response without content
	}
	data, _ := json.Marshal(leaves("", tree, func(_ string, leaf any) any { return change(leaf) }))
	return data
}

// sung adds a canary to every scalar, so texts stay texts.
func sung(leaf any) any { return fmt.Sprint(canary, " ", leaf) }

// fault is a fault of the network or the platform.
type fault struct {
	name    string
	make    func(*exchanged) (*http.Response, error)
	expired bool // the deadline has passed before the call begins
}

// reply responds with a status, a body, and headers with canaries.
func (e *exchanged) reply(status int, contentType, body string, headers ...string) (*http.Response, error) {
	header := http.Header{"Content-Type": {contentType}, "X-Request-Id": {"req-7"}, "Www-Authenticate": {`Bearer error="` + canary + `"`}}
	for i := 0; i+1 < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", canary), Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: e.request,
	}, nil
}

// rejection responds with a status and the texts of the request in a form of error body.
func rejection(status int, body func(echo string) any) func(*exchanged) (*http.Response, error) {
	return func(e *exchanged) (*http.Response, error) {
		data, _ := json.Marshal(body(e.echo))
		return e.reply(status, "application/json", string(data), "Retry-After", canary)
	}
}

// decodes responds with a success whose body cannot be decoded completely.
func decodes(body func(*exchanged) []byte) func(*exchanged) (*http.Response, error) {
	return func(e *exchanged) (*http.Response, error) {
		return e.reply(http.StatusOK, "application/json", string(body(e)))
	}
}

// faults are all faults. The first one is a success, and later faults change its response.
var faults = []fault{
	{name: "none"},
	{name: "401", make: rejection(401, func(echo string) any { return map[string]any{"error": echo} })},
	{name: "403", make: rejection(403, func(echo string) any { return map[string]any{"error": echo, "message": echo} })},
	{name: "404", make: rejection(404, func(echo string) any { return map[string]any{"status": 404, "error": echo} })},
	{name: "422", make: rejection(422, func(echo string) any { return map[string]any{"error": []string{echo, "Email " + echo}} })},
	{name: "422, a code", make: rejection(422, func(echo string) any { return map[string]any{"error": canary, "error_description": echo} })},
	{name: "422, by field", make: rejection(422, func(echo string) any { return map[string]any{"errors": map[string]any{"email": []string{echo}}} })},
	{name: "429", make: rejection(429, func(echo string) any {
		return map[string]any{"errors": []any{map[string]any{"code": echo, "message": echo}}}
	})},
	{name: "500", make: rejection(500, func(echo string) any { return echo })},
	{name: "502 of a proxy", make: func(e *exchanged) (*http.Response, error) {
		return e.reply(http.StatusBadGateway, "text/html", "<html><body>"+e.echo+"</body></html>")
	}},
	{name: "HTML for JSON", make: func(e *exchanged) (*http.Response, error) {
		return e.reply(http.StatusOK, "text/html", "<html><body>"+e.echo+"</body></html>")
	}},
	{name: "redirect", make: func(e *exchanged) (*http.Response, error) {
		return e.reply(http.StatusFound, "text/plain", "", "Location", "https://elsewhere.example/?"+canary)
	}},
	{name: "malformed redirect", make: func(e *exchanged) (*http.Response, error) {
		return e.reply(http.StatusFound, "text/plain", "", "Location", "http://"+canary+":"+canary)
	}},
	{name: "connection refused", make: func(e *exchanged) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}},
	{name: "transport that echoes the request in its error", make: func(e *exchanged) (*http.Response, error) { return nil, errors.New(e.echo) }},
	{name: "body breaks off", make: func(e *exchanged) (*http.Response, error) {
		body := e.marked(sung)
		response, err := e.reply(http.StatusOK, "application/json", string(body))
		response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{errors.New(e.echo)}))
		return response, err
	}},
	{name: "truncated", make: decodes(func(e *exchanged) []byte { a := e.marked(sung); return a[:len(a)/2] })},
	{name: "only texts", make: decodes(func(e *exchanged) []byte { return e.marked(sung) })},
	{name: "only lists", make: decodes(func(e *exchanged) []byte { return e.marked(func(any) any { return []string{canary} }) })},
	{name: "only objects", make: decodes(func(e *exchanged) []byte {
		return e.marked(func(any) any { return map[string]string{canary: canary} })
	})},
	{name: "only huge numbers", make: decodes(func(e *exchanged) []byte {
		return bytes.ReplaceAll(e.marked(func(any) any { return "7" }), []byte(`"7"`), []byte("-"+canaryNumber+canaryNumber+"e747"))
	})},
	{name: "another object", make: decodes(func(e *exchanged) []byte { return []byte(`{"` + canary + `":"` + canary + `"}`) })},
	{name: "canceled", make: func(e *exchanged) (*http.Response, error) {
		e.cancel()
		return nil, fmt.Errorf("%s: %w", e.echo, e.request.Context().Err())
	}},
	{name: "deadline", expired: true},
}

// broken is a body that breaks off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
