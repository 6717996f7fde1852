package transport

import (
	"maps"
	"net/http"
	"strings"

	"github.com/dispensary-go/dispensary/api"
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

// headerProblem says why a value cannot be that of a header (RFC 9110, section 5.5),
// or nothing. net/http would find out when it sends, and its refusal looks like a
// failure of the network.
func headerProblem(value string) string {
	for i := range len(value) {
		if b := value[i]; b < ' ' && b != '\t' || b == 0x7f {
			return "holds a line break or another control character"
		}
	}
	return ""
}

// isHeaderName reports a token of RFC 9110, section 5.6.2.
func isHeaderName(name string) bool {
	for i := range len(name) {
		b := name[i]
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		if !letter && (b < '0' || b > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return name != ""
}

// isIdempotencyKey reports whether net/http takes a header for the promise that a write
// can be repeated.
func isIdempotencyKey(name string) bool {
	return name == "Idempotency-Key" || name == "X-Idempotency-Key"
}

// addHeaders adds a caller's headers, except those that are the client's, and those that
// make transports repeat a write. It returns the name of one that cannot be sent, and why.
func addHeaders(header, extra http.Header, read bool) (field, problem string) {
	for name, values := range extra {
		if !isHeaderName(name) {
			return "header name", "is not one that HTTP allows"
		}
		canonical := http.CanonicalHeaderKey(name)
		if !read && isIdempotencyKey(canonical) {
			return "header " + name, "would make net/http repeat the write, and the platform ignores it: use Ensure"
		}
		switch canonical {
		case "Authorization", "Host", "Content-Type", "Content-Length", "Transfer-Encoding", clinicKeyHeader:
			return "header " + name, "is set by the client and cannot be changed for a call"
		}
		for _, value := range values {
			if problem := headerProblem(value); problem != "" {
				return "header " + name, problem
			}
		}
		header[name] = values
	}
	return "", ""
}

// setClinicKey sets a clinic's key in a header, or says why it cannot be there.
func setClinicKey(header http.Header, key api.Secret) (problem string) {
	if key.IsZero() {
		return "is empty"
	}
	if problem = headerProblem(key.Reveal()); problem == "" {
		header[clinicKeyHeader] = []string{key.Reveal()}
	}
	return problem
}

// headerForRetry returns the header for one more attempt. It is another map, because a
// transport may still hold the one that was sent, and it lacks what http.Client has
// added to that: the cookies of a jar, which it will add again. Cookies of the caller
// stay.
func headerForRetry(sent, callers http.Header) http.Header {
	header := maps.Clone(sent)
	if own := callers["Cookie"]; own != nil {
		header["Cookie"] = own
	} else {
		delete(header, "Cookie")
	}
	return header
}
