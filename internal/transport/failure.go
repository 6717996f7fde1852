package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
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
	var local *localError
	if errors.As(err, &local) {
		return local.cause
	}
	if err == nil || isSafe(err) {
		return err
	}
	return &networkError{text: shortText(err), original: err}
}

// isSafe reports whether err contains no data and is not wrapped by net/http.
func isSafe(err error) bool {
	var address *url.Error
	if errors.As(err, &address) {
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
func classify(err error, a *answer) observe.Failure {
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
