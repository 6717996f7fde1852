package transport

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/go-querystring/query"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// Call is one call of an operation.
type Call struct {
	Operation *operation.Operation

	// Path contains the values of the route's parameters in order.
	Path []string

	// Query is a struct with url tags, url.Values, or nil.
	Query any

	// Body is encoded as JSON. Nil means no body.
	Body any

	// Blank contains the names of blank required fields. See [Blank].
	Blank []string

	Options []api.RequestOption

	// ForPractitioner allows the practitioner option of package catalog, which sets Query.
	ForPractitioner bool

	// wrong contains further invalid arguments.
	wrong api.ArgumentErrors

	// encodedQuery replaces Query if a list has already encoded it.
	encodedQuery string
	// path replaces the route's path in a raw call.
	path string
	// page receives the body of each page of a raw list. Nil for other calls.
	page *[]byte
}

// invalid returns an error for a field of the call that cannot be sent.
func (c *Call) invalid(field, reason string) *api.ArgumentError {
	return &api.ArgumentError{Operation: c.Operation.Name, Field: field, Reason: reason}
}

// Blank returns the JSON names of the required fields that are blank. A value of white space
// only is blank, as it is for the platform. pairs contains names and values in turn.
func Blank(pairs ...string) []string {
	var blank []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if strings.TrimSpace(pairs[i+1]) == "" {
			blank = append(blank, pairs[i])
		}
	}
	return blank
}

// endpoint builds requests to one site. Views of a client differ in the clinic key only.
type endpoint struct {
	base      *url.URL
	header    http.Header // of every request; read-only
	clinicKey api.Secret  // not sent if empty
}

// outgoing contains the URL and the body of a request, which the request refers to.
type outgoing struct {
	url  url.URL
	body []byte // nil for no body
}

// build returns the request of a call without its authorization. The error contains all
// invalid arguments.
func (o *outgoing) build(ctx context.Context, e *endpoint, call *Call) (*http.Request, error) {
	header := maps.Clone(e.header)
	o.url = *e.base
	wrong := call.setURL(&o.url)
	wrong = append(wrong, call.wrong...)
	for _, field := range call.Blank {
		wrong = append(wrong, call.invalid(field, "can't be blank"))
	}
	if call.Body != nil {
		body, err := json.Marshal(call.Body)
		if err != nil {
			for _, field := range unencodable(nil, "", reflect.ValueOf(call.Body)) {
				wrong = append(wrong, call.invalid(field, "is not valid"))
			}
		}
		if err == nil && mayAlterText(body) {
			for _, field := range alteredText(call.Body) {
				wrong = append(wrong, call.invalid(field, notUTF8))
			}
		}
		o.body = body
		header["Content-Type"] = contentTypeJSON
	}
	if !e.clinicKey.IsZero() {
		header[clinicKeyHeader] = []string{e.clinicKey.Reveal()}
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	request := http.Request{
		Method: call.Operation.Method, URL: &o.url, Host: e.base.Host, Header: header, ContentLength: int64(len(o.body)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return request.WithContext(ctx), nil
}

var contentTypeJSON = []string{"application/json"}

// setURL turns the base URL u into the URL of the call. It returns the arguments of the route
// and the query that cannot be sent.
func (c *Call) setURL(u *url.URL) (wrong api.ArgumentErrors) {
	base := *u
	u.Path, u.RawPath, wrong = c.expand(&base)
	u.RawQuery = c.encodedQuery
	if u.RawQuery == "" && c.Query != nil {
		encoded, problems := c.encodeQuery()
		u.RawQuery, wrong = encoded, append(wrong, problems...)
	}
	return wrong
}

// expand returns the path of the call below base with the route's parameters: plain is
// unencoded, and escaped is percent-encoded if that differs. wrong contains all invalid
// arguments.
func (c *Call) expand(base *url.URL) (plain, escaped string, wrong api.ArgumentErrors) {
	if c.path != "" {
		plain, escaped, err := rawPath(c.path)
		switch {
		case err != nil:
			return "", "", api.ArgumentErrors{c.invalid("Path", "is not percent-encoded")}
		case !utf8.ValidString(plain):
			return "", "", api.ArgumentErrors{c.invalid("Path", notUTF8)}
		}
		return base.Path + plain, base.EscapedPath() + escaped, nil
	}
	var path strings.Builder
	path.Grow(len(base.Path) + len(c.Operation.Route) + 32*len(c.Path))
	path.WriteString(base.Path)
	differs, next := base.RawPath != "", 0
	for text, param := range c.Operation.Segments() {
		path.WriteString(text)
		if param == "" {
			continue
		}
		var value string
		if next < len(c.Path) {
			value = c.Path[next]
			next++
		}
		// A dot segment would be resolved and would reach another endpoint.
		if value == "" || value == "." || value == ".." {
			wrong = append(wrong, c.invalid(param, "must be an id"))
		} else if !utf8.ValidString(value) {
			wrong = append(wrong, c.invalid(param, notUTF8))
		}
		path.WriteString(value)
		differs = differs || url.PathEscape(value) != value
	}
	if differs && wrong == nil {
		escaped = c.expandEscaped(base)
	}
	return path.String(), escaped, wrong
}

// rawPath returns the path of a raw call in two forms: decoded, and with each segment
// percent-encoded like the parameters of other calls.
func rawPath(path string) (plain, escaped string, err error) {
	plain, err = url.PathUnescape(path)
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		value, _ := url.PathUnescape(segment)
		segments[i] = url.PathEscape(value)
	}
	return plain, strings.Join(segments, "/"), err
}

func (c *Call) expandEscaped(base *url.URL) string {
	path, next := base.EscapedPath(), 0
	for text, param := range c.Operation.Segments() {
		path += text
		if param != "" {
			path += url.PathEscape(c.Path[next])
			next++
		}
	}
	return path
}

// emptyQueries contains the encoded zero value of each query type. Most calls have no filters,
// and encoding by reflection costs more than the rest of the request.
var emptyQueries sync.Map

func (c *Call) encodeQuery() (string, api.ArgumentErrors) {
	if values, ok := c.Query.(url.Values); ok {
		return c.encodeValues(values)
	}
	given := reflect.ValueOf(c.Query)
	empty := given.IsZero()
	if empty {
		if known, ok := emptyQueries.Load(given.Type()); ok {
			return known.(string), nil
		}
	}
	values, err := query.Values(c.Query)
	if err != nil {
		// Query types check themselves and name the field. Any other text could contain a
		// value.
		if argument, ok := errors.AsType[*api.ArgumentError](err); ok {
			argument.Operation = c.Operation.Name
			return "", api.ArgumentErrors{argument}
		}
		return "", api.ArgumentErrors{c.invalid("query", "cannot be encoded")}
	}
	encoded, wrong := c.encodeValues(values)
	if empty {
		emptyQueries.Store(given.Type(), encoded)
	}
	return encoded, wrong
}

// encodeValues encodes a query and returns the parameters whose text is not valid UTF-8. If a
// name is not valid, its field is "query".
func (c *Call) encodeValues(values url.Values) (string, api.ArgumentErrors) {
	var wrong api.ArgumentErrors
	for name, texts := range values {
		field := strings.TrimSuffix(name, "[]")
		if !utf8.ValidString(name) {
			field, texts = "query", []string{name}
		}
		if slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) }) {
			wrong = append(wrong, c.invalid(field, notUTF8))
		}
	}
	slices.SortFunc(wrong, func(a, b *api.ArgumentError) int { return cmp.Compare(a.Field, b.Field) })
	return values.Encode(), wrong
}

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
