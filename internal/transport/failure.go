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

// localError is a failure on this side, of the limiter or the token source: it is
// shown as it is, and records whether the platform had answered before.
type localError struct {
	cause    error
	answered bool
	limiter  bool
}

func (e *localError) Error() string { return e.cause.Error() }
func (e *localError) Unwrap() error { return e.cause }

// unsent reports that the failed attempt provably sent nothing.
func unsent(err error, trace *connectionTrace) bool {
	var local *localError
	var operation *net.OpError
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &local):
		return !local.answered
	case trace.wasRepeatable():
		return false // net/http may have sent it, and failed to send it again
	case errors.As(err, &lookup), errors.As(err, &certificate):
		return true
	case errors.As(err, &operation) && (operation.Op == "dial" || isProxyOperation(operation)):
		return true
	}
	return trace.unconnected()
}

// networkError is a failure of the network or of a transport, without what net/http
// would add: the address with its query, or bytes of an answer.
//
// It matches what the original matches, and [errors.As] finds in it only types whose
// texts hold no more than a host.
type networkError struct {
	text     string
	original error
}

// publicCause returns err as it may be shown: nil and the errors of contexts and of
// this module as they are, anything else as a networkError.
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

// isSafe is true of errors that net/http has not wrapped and that hold nothing.
func isSafe(err error) bool {
	var address *url.Error
	if errors.As(err, &address) {
		return false
	}
	// A wrapped one may have another text.
	return err == context.Canceled || err == context.DeadlineExceeded || err == errTooLarge
}

// classifyNetwork says why no whole answer came.
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

// shortText is what an error says of a failure of the network.
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
		return "connection closed in the middle"
	}
	return "network failure"
}

func (e *networkError) Error() string { return e.text }

// Timeout makes time-outs recognizable without the original's text.
func (e *networkError) Timeout() bool {
	var timeout net.Error
	return errors.As(e.original, &timeout) && timeout.Timeout()
}

// Is matches whatever the original matches.
func (e *networkError) Is(target error) bool { return errors.Is(e.original, target) }

// As finds the types whose text names a host at most. A [url.Error], above
// all, is not among them.
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

// GoString keeps %#v from walking into the original.
func (e *networkError) GoString() string { return e.text }

// classify says in a word what is wrong with the last answer, or why none came.
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

// isDone is true of the errors of a context.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
