package transport

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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

// maxRetryAfter is the maximum result of retryAfter. A longer wait means the same to every
// caller: do not retry soon.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the wait requested by a response, at most maxRetryAfter. It reads both
// forms of the header: seconds with any number of digits, and an HTTP date. It rounds a
// fraction of a second up, because some proxies write one.
func retryAfter(header http.Header) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if value == "" {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if strings.Trim(value, "0123456789.") == "" && !errors.Is(err, strconv.ErrSyntax) { // infinite if out of range
		return time.Duration(math.Ceil(min(seconds, maxRetryAfter.Seconds()))) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(until(date, header), maxRetryAfter), true
}

// until returns the time from a response until date, at least 0. It counts from now if the
// response has no Date.
func until(date time.Time, header http.Header) time.Duration {
	now, ok := ResponseTime(header)
	if !ok {
		now = time.Now()
	}
	return max(date.Sub(now), 0)
}

// ResponseTime returns the time of a response by the clock of the server, from its Date
// header. Compare every time in the response with it, because the local clock may be wrong. It
// returns false if the response has no valid Date.
func ResponseTime(header http.Header) (time.Time, bool) {
	value := header.Get("Date")
	if value == "" {
		return time.Time{}, false
	}
	date, err := http.ParseTime(value)
	return date, err == nil
}

const module = "github.com/dispensary-go/dispensary"

// Version returns the version of this module in the running program, such as "0.1.0", or
// "devel" if the build recorded none.
var Version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return recordedVersion(info)
	}
	return "devel"
})

// recordedVersion prefers this module among the dependencies. A program of this repository
// built in a checkout has no such dependency, but Go gives its main module the version of the
// commit.
func recordedVersion(info *debug.BuildInfo) string {
	for _, m := range append(slices.Clip(info.Deps), &info.Main) {
		if m.Path != module && (m != &info.Main || !strings.HasPrefix(m.Path, module+"/")) {
			continue
		}
		if m.Replace != nil {
			m = m.Replace // a folder has no version
		}
		if number, ok := strings.CutPrefix(m.Version, "v"); ok {
			return number
		}
	}
	return "devel"
}

// userAgent returns the User-Agent header of every request, including requests to the token
// endpoint. Firewalls block requests without one.
func userAgent(product string) string {
	return strings.TrimSpace(product + " dispensary-go/" + Version())
}
