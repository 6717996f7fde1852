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

// Status is the result of a check.
type Status string

// The results of a check.
const (
	StatusPass Status = "pass"
	StatusWarn Status = "warn" // works now, but not always or not for long
	StatusFail Status = "fail"
	StatusSkip Status = "skip" // not checked, for the reason in Row.Seen
)

// Row is the result of one check.
type Row struct {
	Check  string `json:"check"`
	Status Status `json:"status"`

	// Seen describes the result, or the reason for skipping the check.
	Seen string `json:"seen"`

	// Consequence is the effect in production, and Fix the remedy. Both are empty if the check
	// passed or was skipped.
	Consequence string `json:"consequence,omitempty"`
	Fix         string `json:"fix,omitempty"`

	// Commands are shell commands that fix the fault or show details. Doctor never runs them.
	Commands []string `json:"commands,omitempty"`
}

// Report is the result of [Run].
type Report struct {
	// Environment is the checked environment, such as "us/sandbox".
	Environment string `json:"environment"`

	// At is the time of the run in UTC, in whole seconds.
	At time.Time `json:"at"`

	// Rows are the results, in the order of the package comment.
	Rows []Row `json:"rows"`
}

// Count returns the number of rows with a status.
func (r Report) Count(status Status) int {
	n := 0
	for _, row := range r.Rows {
		if row.Status == status {
			n++
		}
	}
	return n
}

func pass(format string, args ...any) Row {
	return Row{Status: StatusPass, Seen: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) Row {
	return Row{Status: StatusSkip, Seen: fmt.Sprintf(format, args...)}
}

func warn(seen, consequence, fix string, commands ...string) Row {
	return Row{Status: StatusWarn, Seen: seen, Consequence: consequence, Fix: fix, Commands: commands}
}

func fail(seen, consequence, fix string, commands ...string) Row {
	return Row{Status: StatusFail, Seen: seen, Consequence: consequence, Fix: fix, Commands: commands}
}

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
	if _, ok := errors.AsType[*net.DNSError](err); ok {
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
	if _, ok := errors.AsType[*net.OpError](err); ok {
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
