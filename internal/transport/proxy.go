package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// proxyError is a failure of a proxy to connect to the platform. It never contains the URL of
// the proxy, because the URL may contain a password.
type proxyError struct {
	status int   // of the response to CONNECT, 0 if the proxy was not reached
	cause  error // nil if the proxy responded
}

func (e *proxyError) Error() string {
	if e.status == 0 {
		return "proxy not reachable: " + shortText(e.cause)
	}
	return strings.TrimSpace("proxy responded " + strconv.Itoa(e.status) + " " + http.StatusText(e.status))
}

// permanent reports whether the proxy will reject the next attempt too.
func (e *proxyError) permanent() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout && e.status != http.StatusTooManyRequests
}

// checkProxyResponse returns an error with the status of a rejected CONNECT. The error of
// net/http contains the reason phrase only.
func checkProxyResponse(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	if response.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{status: response.StatusCode}
}

// ProxyFailure returns a text without credentials if err is the failure of a proxy, and
// "" otherwise.
func ProxyFailure(err error) string {
	if failure := proxyFailure(err); failure != nil {
		return failure.Error()
	}
	return ""
}

// proxyFailure returns the failure of a proxy in err, or nil.
func proxyFailure(err error) *proxyError {
	var failure *proxyError
	var operation *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		return failure
	case errors.As(err, &operation) && isProxyOperation(operation):
		return &proxyError{cause: operation.Err}
	}
	if status := rejectedConnect(err); status != 0 {
		return &proxyError{status: status}
	}
	return nil
}

func isProxyOperation(operation *net.OpError) bool {
	return operation.Op == "proxyconnect" || operation.Op == "socks connect"
}

// rejectedConnect returns the status of a rejected CONNECT from the error of the caller's
// transport, or 0. The error text of net/http is the reason phrase alone.
func rejectedConnect(err error) int {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	phrase := err.Error()
	if strings.HasPrefix(phrase, http.StatusText(http.StatusProxyAuthRequired)) {
		return http.StatusProxyAuthRequired // some proxies add a sentence
	}
	for status := 400; status < 600; status++ {
		if phrase != "" && phrase == http.StatusText(status) {
			return status
		}
	}
	return 0
}
