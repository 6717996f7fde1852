package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// reasons are fixed texts for known errors. The error's own text may contain the URL of a
// database or a webhook endpoint, and thus a secret.
var reasons = []struct {
	err  error
	text string
}{
	{context.DeadlineExceeded, "timed out"},
	{context.Canceled, "the run was canceled"},
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.ECONNRESET, "connection reset"},
	{io.EOF, "connection closed before the end of the response"},
	{io.ErrUnexpectedEOF, "connection closed before the end of the response"},
	{seal.ErrUnknownKey, "the key of the ciphertext is not in the ring"},
	{seal.ErrTampered, "the ciphertext was changed or copied from another place"},
	{seal.ErrNotSealed, "the bytes are not a ciphertext of a key ring"},
	{tokenstore.ErrUnreadable, "decryption failed"},
	{webhook.ErrBodyLost, "decryption failed"},
	{webhook.ErrInboxClosed, "inbox is closed"},
	{api.ErrWrongEnvironment, "wrong environment"},
}

// reason returns a fixed text for the cause of a failure.
func reason(err error) string {
	if text := certificateReason(err); text != "" {
		return text
	}
	if text := transport.ProxyFailure(err); text != "" {
		return text
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "host not found"
	}
	for _, known := range reasons {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timed out"
	}
	var call *api.Error
	if errors.As(err, &call) && call.StatusCode != 0 {
		return fmt.Sprintf("the platform responds with %d", call.StatusCode)
	}
	var network *net.OpError
	if errors.As(err, &network) {
		return "network failure"
	}
	return "unknown error" // its text may contain a secret
}

// certificateReason returns a fixed text for an error of TLS, or "" for any other error.
func certificateReason(err error) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case errors.As(err, &invalid):
		return "the certificate is not valid for a server"
	case errors.As(err, &host):
		return "the certificate is for another name"
	case errors.As(err, &authority):
		return "the certificate is not trusted: its authority is unknown, or an intermediate certificate is missing"
	case errors.As(err, &record), err != nil && strings.HasSuffix(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the server does not speak TLS"
	case errors.As(err, &alert), errors.As(err, new(*tls.CertificateVerificationError)):
		return "the TLS handshake failed"
	}
	return ""
}

// days formats the absolute value of a duration as seconds, minutes, hours or days.
func days(d time.Duration) string {
	switch d = d.Abs(); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
