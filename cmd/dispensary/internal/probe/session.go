package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/oauth"
)

// errLimit stops a run after [MaxRequests] requests.
var errLimit = fmt.Errorf("the run has already sent its maximum of %d requests", MaxRequests)

// session is one run. After a request without a response, err is set, no more requests are
// sent, and all later responses are empty.
type session struct {
	ctx    context.Context //nolint:containedctx // a session is one call of Run
	config Config
	http   *http.Client
	marker string // in the name of every record
	key    string // of the clinic, empty until clinicKeyHeader has run
	sent   int
	err    error

	created       []Record
	plans         []string          // of the first patient, in order of creation
	activePlan    string            // a plan that was created active
	first, second *platformResponse // responses that created the patients
	withoutKey    platformResponse  // response to GET /clinic without the clinic key
	lists         map[string]platformResponse
	main, spare   consent
}

func newSession(ctx context.Context, c Config) *session {
	client := http.Client{
		Transport: c.Application.Transport, Timeout: cmp.Or(c.Application.AttemptTimeout, 30*time.Second),
		// Never send a token to the target of a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &session{
		ctx: ctx, config: c, http: &client, marker: strings.ToLower(rand.Text()[:10]), lists: map[string]platformResponse{},
		main: newConsent(c.Token), spare: newConsent(c.Spare),
	}
}

// platformResponse is a response of the platform.
type platformResponse struct {
	status    int
	requestID string
	body      any // decoded by encoding/json, nil if it is not JSON
}

func (a platformResponse) ok() bool { return a.status >= 200 && a.status < 300 }

// rejected reports whether the platform rejected the content of a request, and not its caller.
func (a platformResponse) rejected() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// at returns the value at a path of object members, and whether it exists.
func (a platformResponse) at(path ...string) (any, bool) { return member(a.body, path...) }

func member(value any, path ...string) (any, bool) {
	for _, name := range path {
		object, _ := value.(map[string]any)
		var there bool
		if value, there = object[name]; !there {
			return nil, false
		}
	}
	return value, true
}

func textAt(value any, path ...string) string {
	found, _ := member(value, path...)
	text, _ := found.(string)
	return text
}

func (a platformResponse) text(path ...string) string { return textAt(a.body, path...) }

// rows returns the objects of a list.
func (a platformResponse) rows(key string) []any {
	found, _ := a.at(key)
	rows, _ := found.([]any)
	return rows
}

func (a platformResponse) meta(name string) int {
	found, _ := a.at("meta", name)
	number, _ := found.(float64)
	return int(number)
}

// object is a JSON object to send.
type object map[string]any

// get sends a GET request with the token of the run.
func (s *session) get(path string, query ...string) platformResponse {
	return s.send(s.config.Token.AccessToken.Reveal(), http.MethodGet, path, nil, query...)
}

// list returns the first page of a list. It reads each list once per run.
func (s *session) list(path, size string) platformResponse {
	a, known := s.lists[path]
	if !known {
		a = s.get(path, "page[size]", size)
		s.lists[path] = a
	}
	return a
}

// getWith sends a GET request with another token.
func (s *session) getWith(token, path string) platformResponse {
	return s.send(token, http.MethodGet, path, nil)
}

func (s *session) post(path string, body object) platformResponse {
	return s.send(s.config.Token.AccessToken.Reveal(), http.MethodPost, path, body)
}

func (s *session) patch(path string, body object) platformResponse {
	return s.send(s.config.Token.AccessToken.Reveal(), http.MethodPatch, path, body)
}

// send sends one request without retries. query alternates names and values.
func (s *session) send(token, method, path string, body object, query ...string) platformResponse {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		values.Add(query[i], query[i+1])
	}
	address := s.config.Application.Site.BaseURL + path
	if len(values) > 0 {
		address += "?" + values.Encode()
	}
	a, err := s.exchange(token, method, address, body)
	if err != nil && s.err == nil {
		s.err = err
	}
	return a
}

// exchange sends a request and reads the response. Its errors contain neither the URL nor the
// query.
func (s *session) exchange(token, method, address string, body object) (platformResponse, error) {
	if s.err != nil {
		return platformResponse{}, s.err
	}
	if s.sent == MaxRequests {
		return platformResponse{}, errLimit
	}
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return platformResponse{}, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(s.ctx, method, address, content)
	if err != nil {
		return platformResponse{}, errors.New("probe: invalid URL")
	}
	s.sign(request, token, body != nil)
	s.sent++
	response, err := s.http.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return platformResponse{}, fmt.Errorf("probe: a request got no response: %w", err)
	}
	return read(response)
}

func (s *session) sign(request *http.Request, token string, hasBody bool) {
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", strings.TrimSpace(s.config.Application.UserAgent+" dispensary-go-probe"))
	if hasBody {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
		if s.key != "" {
			request.Header.Set("X-SVC-Clinic-Key", s.key)
		}
	}
}

// maxResponse is the largest part of a response that is read, in bytes.
const maxResponse = 8 << 20

func read(response *http.Response) (platformResponse, error) {
	defer response.Body.Close()
	a := platformResponse{status: response.StatusCode, requestID: transport.RequestID(response.Header)}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return a, fmt.Errorf("probe: a response was cut off: %w", err)
	}
	if json.Unmarshal(bytes.TrimPrefix(content, []byte(transport.ByteOrderMark)), &a.body) != nil {
		a.body = nil // an empty body or a proxy's page: the status is enough
	}
	return a, nil
}

// noteCreated stores the record of a response, unless id is empty.
func (s *session) noteCreated(kind, id string) {
	if id != "" {
		s.created = append(s.created, Record{Kind: kind, ID: id})
	}
}

// consent is one authorization with its tokens.
type consent struct {
	original, access, refresh string // original is the access token before the first refresh
	renewed                   *platformResponse
	ended                     bool
}

func newConsent(t oauth.Token) consent {
	return consent{original: t.AccessToken.Reveal(), access: t.AccessToken.Reveal(), refresh: t.RefreshToken.Reveal()}
}

// seen returns the finding that the responses show variant.
func seen(variant string, by ...platformResponse) Finding {
	return Finding{Verdict: Seen, Variant: variant, RequestIDs: idsOf(by)}
}

// ambiguous returns the finding that the responses do not decide a point.
func ambiguous(why string, by ...platformResponse) Finding {
	return Finding{Verdict: Ambiguous, Why: why, RequestIDs: idsOf(by)}
}

// hidden returns the finding that a point cannot be observed.
func hidden(why string, by ...platformResponse) Finding {
	return Finding{Verdict: NotObservable, Why: why, RequestIDs: idsOf(by)}
}

// unexpected returns the finding that the status of a does not decide a point.
func unexpected(a platformResponse) Finding {
	return ambiguous(fmt.Sprintf("a request got the unexpected status %d", a.status), a)
}

func idsOf(responses []platformResponse) []string {
	var ids []string
	for _, a := range responses {
		if a.requestID != "" {
			ids = append(ids, a.requestID)
		}
	}
	return ids
}

// decide returns the finding of a point with two variants: one accepts the request, the other
// rejects it.
func decide(a platformResponse, accepted, rejected string) Finding {
	switch {
	case a.ok():
		return seen(accepted, a)
	case a.rejected():
		return seen(rejected, a)
	}
	return unexpected(a)
}

// lacking returns id if the platform responded with one. Otherwise it returns the finding that
// a point lacks this record.
func lacking(a platformResponse, id, why string) (string, *Finding) {
	if a.ok() && id != "" {
		return id, nil
	}
	f := ambiguous(why+": status "+strconv.Itoa(a.status), a)
	return "", &f
}

// statusOf returns the finding of a point with error statuses as variants.
func statusOf(a platformResponse) Finding {
	switch {
	case a.status < 400, a.status >= 500, a.status == http.StatusUnauthorized, a.status == http.StatusTooManyRequests:
		return unexpected(a)
	}
	return seen(strconv.Itoa(a.status), a)
}

// point is an undocumented behavior of the API.
type point struct {
	name     string
	variants []string // the first is the default of the fake platform
	observe  func(*session) Finding
}

// notObservable returns a point that no request can show.
func notObservable(name, why string, variants ...string) point {
	return point{name, variants, func(*session) Finding { return hidden(why) }}
}
