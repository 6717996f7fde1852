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

	"github.com/dispensary-go/dispensary/api/observe"
)

// unsent reports that the failed attempt provably sent nothing.
func (x *exchange) unsent(err error) bool {
	var own *ownError
	var operation *net.OpError
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &own):
		return !own.answered
	case errors.As(err, &lookup), errors.As(err, &certificate):
		return true
	case errors.As(err, &operation) && operation.Op == "dial":
		return true
	}
	return x.trace.unconnected()
}

// networkError is a failure of the network or of a transport, told without what
// net/http would add: the address with its query, or bytes of an answer.
//
// It matches what the original matches and gives out, through [errors.As], only
// types whose texts hold no more than a host.
type networkError struct {
	text     string
	original error
}

// redact returns err as it may be shown: nil and the errors of contexts and of
// this module as they are, anything else as a networkError.
func redact(err error) error {
	var own *ownError
	if errors.As(err, &own) {
		return own.cause
	}
	if err == nil || isOwn(err) {
		return err
	}
	return &networkError{text: describe(err), original: err}
}

// isOwn is true of errors that are not wrapped by net/http and hold nothing.
func isOwn(err error) bool {
	var address *url.Error
	if errors.As(err, &address) {
		return false
	}
	// A wrapped one may have a text of its own.
	return err == context.Canceled || err == context.DeadlineExceeded || err == errTooLarge
}

// failureOf tells why no whole answer came.
func failureOf(err error) observe.Failure {
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return observe.FailureCanceled
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

func describe(err error) string {
	switch failureOf(err) {
	case observe.FailureCanceled:
		return "canceled by the caller"
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

// As gives out the types whose text names a host at most. A [url.Error], above
// all, is not among them.
func (e *networkError) As(target any) bool {
	switch target.(type) {
	case **net.OpError, **net.DNSError, *syscall.Errno, **os.SyscallError,
		**tls.CertificateVerificationError, *tls.RecordHeaderError:
		return errors.As(e.original, target)
	}
	return false
}

// GoString keeps %#v from walking into the original.
func (e *networkError) GoString() string { return e.text }
