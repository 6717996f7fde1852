package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// localError is a failure of the limiter or the token source. It is returned to the caller
// unchanged.
type localError struct {
	cause   error
	limiter bool
}

func (e *localError) Error() string { return e.cause.Error() }
func (e *localError) Unwrap() error { return e.cause }

// unsent reports whether the failed attempt provably sent nothing.
func unsent(err error, trace *connectionTrace) bool {
	var local *localError
	var operation *net.OpError
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &local):
		return true
	case trace.wasRepeatable():
		return false // net/http may have sent it and failed to repeat it
	case errors.As(err, &lookup), errors.As(err, &certificate):
		return true
	case errors.As(err, &operation) && (operation.Op == "dial" || isProxyOperation(operation)):
		return true
	}
	return trace.unconnected()
}

// networkError is a failure of the network or of a transport without the details that net/http
// adds: the URL with its query, or bytes of a response.
//
// It matches every error that the original matches. [errors.As] finds in it only types whose
// texts contain at most a host.
type networkError struct {
	text     string
	original error
}

// publicCause returns err in a form that may be printed: nil and the errors of contexts and of
// this module unchanged, and any other error as a networkError.
func publicCause(err error) error {
	if local, ok := errors.AsType[*localError](err); ok {
		return local.cause
	}
	if err == nil || isSafe(err) {
		return err
	}
	return &networkError{text: shortText(err), original: err}
}

// isSafe reports whether err contains no data and is not wrapped by net/http.
func isSafe(err error) bool {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return false
	}
	// A wrapping error may have another text.
	return err == context.Canceled || err == context.DeadlineExceeded || err == errTooLarge
}

// classifyNetwork returns the reason for a missing or incomplete response.
func classifyNetwork(err error) observe.Failure {
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return observe.FailureCanceled
	case proxyFailure(err) != nil:
		return observe.FailureProxy
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return observe.FailureTimeout
	case errors.As(err, &lookup):
		return observe.FailureLookup
	case errors.As(err, &certificate):
		return observe.FailureCertificate
	case errors.As(err, &record):
		return observe.FailureTLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return observe.FailureRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return observe.FailureReset
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return observe.FailureClosed
	case errors.As(err, &timeout) && timeout.Timeout():
		return observe.FailureTimeout
	case errors.Is(err, errTooLarge):
		return observe.FailureTooLarge
	}
	return observe.FailureNetwork
}

// shortText returns the error text for a network failure.
func shortText(err error) string {
	switch classifyNetwork(err) {
	case observe.FailureCanceled:
		return "canceled by the caller"
	case observe.FailureProxy:
		return ProxyFailure(err)
	case observe.FailureTimeout:
		return "timed out"
	case observe.FailureLookup:
		return "host not found"
	case observe.FailureCertificate:
		return "certificate not trusted"
	case observe.FailureTLS:
		return "the server does not speak TLS"
	case observe.FailureRefused:
		return "connection refused"
	case observe.FailureReset:
		return "connection reset"
	case observe.FailureClosed:
		return "connection closed before the end of the response"
	}
	return "network failure"
}

func (e *networkError) Error() string { return e.text }

// Timeout makes timeouts recognizable without the original's text.
func (e *networkError) Timeout() bool {
	var timeout net.Error
	return errors.As(e.original, &timeout) && timeout.Timeout()
}

// Is matches every error that the original matches.
func (e *networkError) Is(target error) bool { return errors.Is(e.original, target) }

// As finds only types whose text contains at most a host. In particular, it does not find a
// [url.Error].
func (e *networkError) As(target any) bool {
	switch target := target.(type) {
	case **proxyError:
		*target = proxyFailure(e.original)
		return *target != nil
	case **net.OpError, **net.DNSError, *syscall.Errno, **os.SyscallError,
		**tls.CertificateVerificationError, *tls.RecordHeaderError:
		return errors.As(e.original, target)
	}
	return false
}

// GoString prevents %#v from printing the original.
func (e *networkError) GoString() string { return e.text }

// classify returns the failure of the last response, or the reason for a missing one.
func classify(err error, a *lastResponse) observe.Failure {
	var local *localError
	var scope *api.ScopeError
	switch {
	case errors.As(err, &local) && local.limiter && !isDone(err):
		return observe.FailureLimiter
	case errors.As(err, &local) && !isDone(err):
		switch {
		case errors.Is(err, api.ErrReauthorize):
			return observe.FailureReauthorize
		case errors.As(err, &scope):
			return observe.FailureScope
		}
		return observe.FailureNoAccessToken
	case err != nil:
		return classifyNetwork(err)
	case !a.success():
		return observe.FailureStatus
	}
	return ""
}

// isDone reports whether err is the error of a context.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

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

// connectionTrace tracks the connection of a write. The goroutines of the transport write to
// it.
//
// It also prevents net/http from repeating the write. If a reused HTTP/1 connection breaks
// before the response, net/http sends a request again if a header marks it as idempotent, and
// any RoundTripper can add such a header. The platform does not know these headers and applies
// the write twice. If such a header was written before net/http gets another connection, the
// trace closes that connection before net/http uses it. The write then fails, and it may have
// been applied.
//
// Other repetitions by net/http are safe: it has written no byte, or the peer has reported
// with GOAWAY or REFUSED_STREAM that it has not processed the request.
type connectionTrace struct {
	mu             sync.Mutex
	asked, granted bool
	repeatable     bool // a header that marks the write as idempotent was written

	client httptrace.ClientTrace
}

func (t *connectionTrace) hooks() *httptrace.ClientTrace {
	t.client = httptrace.ClientTrace{GetConn: t.getConn, GotConn: t.gotConn, WroteHeaderField: t.wroteHeaderField}
	return &t.client
}

func (t *connectionTrace) getConn(string) {
	t.mu.Lock()
	t.asked = true
	t.mu.Unlock()
}

func (t *connectionTrace) gotConn(got httptrace.GotConnInfo) {
	t.mu.Lock()
	t.granted = true
	t.mu.Unlock()
	if t.wasRepeatable() && got.Conn != nil {
		_ = got.Conn.Close()
	}
}

// wroteHeaderField receives the names as net/http does: in canonical form on HTTP/1. HTTP/2
// uses lower case and never repeats a request because of these headers.
func (t *connectionTrace) wroteHeaderField(name string, _ []string) {
	if isIdempotencyKey(name) {
		t.mu.Lock()
		t.repeatable = true
		t.mu.Unlock()
	}
}

func (t *connectionTrace) reset() {
	t.mu.Lock()
	t.asked, t.granted, t.repeatable = false, false, false
	t.mu.Unlock()
}

// unconnected reports whether a transport that reports its connections requested one and got
// none. Such a transport cannot have sent anything.
func (t *connectionTrace) unconnected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked && !t.granted
}

// wasRepeatable reports whether net/http may repeat the write by itself.
func (t *connectionTrace) wasRepeatable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.repeatable
}
