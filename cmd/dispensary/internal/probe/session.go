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
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/oauth"
)

// errLimit ends a run that has sent [MaxRequests].
var errLimit = fmt.Errorf("the run had sent %d requests before", MaxRequests)

// session is one run. Once a request got no answer, err is set, none is sent any more,
// and all answers are empty.
type session struct {
	ctx    context.Context //nolint:containedctx // a session is one call of Run
	config Config
	http   *http.Client
	marker string // in the name of every record
	key    string // of the clinic, once it is known whether it is needed
	sent   int
	err    error

	created       []Record
	plans         []string // of the first patient, in the order of creation
	activePlan    string   // one that was created active
	first, second *answer  // how the patients were created
	withoutKey    answer   // to GET /clinic
	lists         map[string]answer
	main, spare   consent
}

func newSession(ctx context.Context, c Config) *session {
	client := http.Client{
		Transport: c.Application.Transport, Timeout: cmp.Or(c.Application.AttemptTimeout, 30*time.Second),
		// A token never follows a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &session{
		ctx: ctx, config: c, http: &client, marker: strings.ToLower(rand.Text()[:10]), lists: map[string]answer{},
		main: newConsent(c.Token), spare: newConsent(c.Spare),
	}
}

// answer is what the platform answers.
type answer struct {
	status    int
	requestID string
	body      any // as encoding/json reads it; nil where it is no JSON
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// refused reports a status that the platform may refuse a request with because of
// what it asks, and not because of who asks.
func (a answer) refused() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// at returns what stands at a path of members, and whether it is there.
func (a answer) at(path ...string) (any, bool) { return member(a.body, path...) }

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

func (a answer) text(path ...string) string { return textAt(a.body, path...) }

// rows are the objects of a list.
func (a answer) rows(key string) []any {
	found, _ := a.at(key)
	rows, _ := found.([]any)
	return rows
}

func (a answer) meta(name string) int {
	found, _ := a.at("meta", name)
	number, _ := found.(float64)
	return int(number)
}

// object is a JSON object to send.
type object map[string]any

// get reads with the token of the run.
func (s *session) get(path string, query ...string) answer {
	return s.send(s.config.Token.AccessToken.Reveal(), http.MethodGet, path, nil, query...)
}

// list reads the first page of a list, once in a run.
func (s *session) list(path, size string) answer {
	a, known := s.lists[path]
	if !known {
		a = s.get(path, "page[size]", size)
		s.lists[path] = a
	}
	return a
}

// getWith reads with another token.
func (s *session) getWith(token, path string) answer {
	return s.send(token, http.MethodGet, path, nil)
}

func (s *session) post(path string, body object) answer {
	return s.send(s.config.Token.AccessToken.Reveal(), http.MethodPost, path, body)
}

func (s *session) patch(path string, body object) answer {
	return s.send(s.config.Token.AccessToken.Reveal(), http.MethodPatch, path, body)
}

// send sends one request, once. The query alternates names and values.
func (s *session) send(token, method, path string, body object, query ...string) answer {
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

// exchange makes a request and reads its answer. Its errors name neither address nor
// query.
func (s *session) exchange(token, method, address string, body object) (answer, error) {
	if s.err != nil {
		return answer{}, s.err
	}
	if s.sent == MaxRequests {
		return answer{}, errLimit
	}
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(s.ctx, method, address, content)
	if err != nil {
		return answer{}, errors.New("probe: the address is unusable")
	}
	s.sign(request, token, body != nil)
	s.sent++
	response, err := s.http.Do(request)
	if err != nil {
		var wrapped *url.Error // its text has the address
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return answer{}, fmt.Errorf("probe: a request got no answer: %w", err)
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

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 8 << 20

func read(response *http.Response) (answer, error) {
	defer response.Body.Close()
	a := answer{status: response.StatusCode, requestID: transport.RequestID(response.Header)}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return a, fmt.Errorf("probe: an answer broke off: %w", err)
	}
	if json.Unmarshal(bytes.TrimPrefix(content, []byte(transport.ByteOrderMark)), &a.body) != nil {
		a.body = nil // a proxy's page, or nothing: the status says enough
	}
	return a, nil
}

// noteCreated remembers a record that an answer shows, if it does.
func (s *session) noteCreated(kind, id string) {
	if id != "" {
		s.created = append(s.created, Record{Kind: kind, ID: id})
	}
}

// consent is one authorization, with the tokens that came from it.
type consent struct {
	original, access, refresh string // original is the access token of before the first refresh
	renewed                   *answer
	ended                     bool
}

func newConsent(t oauth.Token) consent {
	return consent{original: t.AccessToken.Reveal(), access: t.AccessToken.Reveal(), refresh: t.RefreshToken.Reveal()}
}
