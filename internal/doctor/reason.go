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

// reasons are errors in words that hold nothing of what they are about. Addresses of
// databases and of webhooks hold secrets, and drivers print them.
var reasons = []struct {
	err  error
	text string
}{
	{context.DeadlineExceeded, "no answer in time"},
	{context.Canceled, "the run was canceled"},
	{syscall.ECONNREFUSED, "the connection is refused"},
	{syscall.ECONNRESET, "the connection is reset"},
	{io.EOF, "the connection is closed without an answer"},
	{io.ErrUnexpectedEOF, "the connection breaks off"},
	{seal.ErrUnknownKey, "it is sealed with a key that is not in the ring"},
	{seal.ErrTampered, "it was changed, or copied from another place"},
	{seal.ErrNotSealed, "it is not sealed"},
	{tokenstore.ErrUnreadable, "it cannot be opened"},
	{webhook.ErrBodyLost, "it cannot be opened"},
	{webhook.ErrInboxClosed, "it is closed"},
	{api.ErrWrongEnvironment, "it is another environment's"},
}

// reason says in fixed words why something failed.
func reason(err error) string {
	if text := certificateReason(err); text != "" {
		return text
	}
	if text := transport.ProxyFailure(err); text != "" {
		return text
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "the name of the host is not known"
	}
	for _, known := range reasons {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "no answer in time"
	}
	var call *api.Error
	if errors.As(err, &call) && call.StatusCode != 0 {
		return fmt.Sprintf("the platform answers %d", call.StatusCode)
	}
	var network *net.OpError
	if errors.As(err, &network) {
		return "the network does not get there"
	}
	return "it fails" // the text of a foreign error may hold anything
}

// certificateReason says what is wrong with TLS; empty where nothing is.
func certificateReason(err error) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired, or is not valid yet"
	case errors.As(err, &invalid):
		return "the certificate is not valid for a server"
	case errors.As(err, &host):
		return "the certificate is for another name"
	case errors.As(err, &authority):
		return "the certificate is signed by no authority that is trusted, or an intermediate one is missing"
	case errors.As(err, &record), err != nil && strings.HasSuffix(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the server does not speak TLS"
	case errors.As(err, &alert), errors.As(err, new(*tls.CertificateVerificationError)):
		return "the TLS handshake fails"
	}
	return ""
}

// days writes a duration in the unit that people use.
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
