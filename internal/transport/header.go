package transport

import (
	"cmp"
	"maps"
	"net/http"
	"strings"
)

const (
	clinicKeyHeader = "X-Svc-Clinic-Key"
	requestIDHeader = "X-Request-Id"
)

// maxRequestID is the maximum length of a request ID in errors, logs and spans, in bytes.
const maxRequestID = 128

// RequestID returns the X-Request-Id of a response, cut to maxRequestID. Errors and logs print
// it, so a "?" replaces each byte that is not printable ASCII.
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

// HeaderProblem returns the reason why value is not a valid header value (RFC 9110, section
// 5.5), or "". net/http would detect this only when it sends the request, and its error looks
// like a network failure.
func HeaderProblem(value string) string {
	for i := range len(value) {
		if b := value[i]; b < ' ' && b != '\t' || b == 0x7f {
			return "contains a line break or another control character"
		}
	}
	return ""
}

// BlankProblem returns the reason why value is blank, or "". White space alone is blank.
func BlankProblem(value string) string {
	switch {
	case value == "":
		return "is empty"
	case strings.TrimSpace(value) == "":
		return "is blank"
	}
	return ""
}

// TokenProblem returns the reason why token is not a bearer token, or "". A bearer token has no
// white space (RFC 6750, section 2.1). The client adds the scheme itself.
func TokenProblem(token string) string {
	if problem := cmp.Or(BlankProblem(token), HeaderProblem(token)); problem != "" {
		return problem
	}
	switch word, _, _ := strings.Cut(strings.TrimSpace(token), " "); {
	case strings.EqualFold(word, "Bearer"):
		return "begins with Bearer, which the client adds"
	case strings.ContainsAny(token, " \t"): // HeaderProblem has found others
		return "contains white space"
	}
	return ""
}

// isIdempotencyKey reports whether net/http treats a header as the promise that a write can be
// repeated.
func isIdempotencyKey(name string) bool {
	return name == "Idempotency-Key" || name == "X-Idempotency-Key"
}

// headerForRetry returns the header for another attempt. It is a copy, because a transport may
// still use the header of the previous attempt.
func headerForRetry(sent http.Header) http.Header { return maps.Clone(sent) }
