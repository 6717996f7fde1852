package transport

import (
	"maps"
	"net/http"
	"strings"
)

const (
	clinicKeyHeader = "X-Svc-Clinic-Key"
	requestIDHeader = "X-Request-Id"
)

// maxRequestID is the longest request ID in errors, logs and spans, in bytes.
const maxRequestID = 128

// RequestID returns the X-Request-Id of a response, cut to maxRequestID. Errors and logs
// print it, so a "?" replaces each byte that is not printable ASCII.
func RequestID(header http.Header) string {
	id := header.Get(requestIDHeader)
	id = id[:min(len(id), maxRequestID)]
	if !strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		return id
	}
	printable := []byte(id)
	for i, b := range printable {
		if b < ' ' || b > '~' {
			printable[i] = '?'
		}
	}
	return string(printable)
}

// HeaderProblem says why a value cannot be that of a header (RFC 9110, section 5.5),
// or nothing. net/http would find out when it sends, and its refusal looks like a
// failure of the network.
func HeaderProblem(value string) string {
	for i := range len(value) {
		if b := value[i]; b < ' ' && b != '\t' || b == 0x7f {
			return "holds a line break or another control character"
		}
	}
	return ""
}

// isIdempotencyKey reports whether net/http takes a header for the promise that a write
// can be repeated.
func isIdempotencyKey(name string) bool {
	return name == "Idempotency-Key" || name == "X-Idempotency-Key"
}

// headerForRetry returns the header for one more attempt: another map, because a transport
// may still use the one that was sent.
func headerForRetry(sent http.Header) http.Header { return maps.Clone(sent) }
