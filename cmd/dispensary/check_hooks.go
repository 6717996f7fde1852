package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
)

// hookClient calls the hooks of an endpoint below url.
type hookClient struct {
	ctx context.Context // never canceled, so that blocked handlers are always released
	url string
	err error // the first error, which makes the verdicts worthless
}

var errNoHook = errors.New("hook does not exist")

// offer calls each hook, and sets those in hooks that the endpoint has.
func (h *hookClient) offer(hooks *receivercheck.Hooks) error {
	if _, err := h.handled("unknown"); err == nil {
		hooks.Handled = func(eventID string) int {
			n, err := h.handled(eventID)
			h.keep(err)
			return n
		}
	} else if !errors.Is(err, errNoHook) {
		return err
	}
	for name, hook := range map[string]*func(bool){"block_handler": &hooks.BlockHandler, "break_storage": &hooks.BreakStorage} {
		call := func(on bool) error {
			_, err := h.call(http.MethodPost, "/"+name+"?on="+strconv.FormatBool(on))
			return err
		}
		if err := call(false); err == nil {
			*hook = func(on bool) { h.keep(call(on)) }
		} else if !errors.Is(err, errNoHook) {
			return err
		}
	}
	return nil
}

func (h *hookClient) keep(err error) {
	if h.err == nil {
		h.err = err
	}
}

// handled returns the number of times that an event was handled.
func (h *hookClient) handled(eventID string) (int, error) {
	text, err := h.call(http.MethodGet, "/handled?event_id="+url.QueryEscape(eventID))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, errors.New("--hooks: /handled must respond with a number")
	}
	return n, nil
}

// call calls a hook and returns the response body. It fails with errNoHook after status 404.
func (h *hookClient) call(method, path string) (string, error) {
	name, _, _ := strings.Cut(path, "?")
	ctx, cancel := context.WithTimeout(h.ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, h.url+path, nil)
	if err != nil {
		return "", errors.New("--hooks must be a URL such as http://localhost:3000/hooks")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("--hooks: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	switch {
	case err != nil:
		return "", fmt.Errorf("--hooks: %s: %w", name, err)
	case response.StatusCode == http.StatusNotFound:
		return "", errNoHook
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent:
		return "", fmt.Errorf("--hooks: %s must respond with 200 or 204, not %s", name, response.Status)
	}
	return string(text), nil
}

// forwardTo returns a function that returns a proxy for a running endpoint. If the endpoint is
// unreachable, the proxy responds with 502.
func forwardTo(endpoint string) (func() (http.Handler, error), error) {
	if !isHTTP(endpoint) {
		return nil, errors.New("must be a URL such as http://localhost:3001/webhooks")
	}
	to, _ := url.Parse(endpoint)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = to, "" },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return func() (http.Handler, error) { return proxy, nil }, nil
}

// isHTTP reports whether text is an absolute HTTP URL.
func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
