package dispensarytest

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// browser is a plain HTTP client with a token.
type browser struct {
	t     testing.TB
	fake  *Server
	token string
	key   string
}

// response is a decoded response.
type response struct {
	t      testing.TB
	status int
	header http.Header
	text   string
	body   map[string]any
}

func start(t testing.TB, opts ...Option) *browser {
	fake := New(t, opts...)
	return &browser{t: t, fake: fake, token: fake.Tokens.Issue(model.User{}).AccessToken}
}

// with returns the same browser with other scopes.
func (b *browser) with(scopes ...string) *browser {
	other := *b
	other.token = b.fake.Tokens.Issue(model.User{}, scopes...).AccessToken
	return &other
}

func (b *browser) get(path string) response { b.t.Helper(); return b.send("GET", path, nil) }

// send makes a request. It encodes a body as JSON unless the body is a string.
func (b *browser) send(method, path string, body any) response {
	b.t.Helper()
	text, plain := body.(string)
	header := []string{"Authorization", "Bearer " + b.token, "X-SVC-Clinic-Key", b.key}
	if body != nil {
		header = append(header, "Content-Type", "application/json")
	}
	if body != nil && !plain {
		encoded, err := json.Marshal(body)
		require.NoError(b.t, err)
		text = string(encoded)
	}
	return b.fetch(method, b.fake.Site().BaseURL+path, text, header...)
}

// fetch sends a request unchanged, with the non-empty names and values of header. It does not
// follow redirects.
func (b *browser) fetch(method, address, body string, header ...string) response {
	b.t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	require.NoError(b.t, err)
	for pair := range slices.Chunk(header, 2) {
		if pair[1] != "" {
			req.Header.Set(pair[0], pair[1])
		}
	}
	resp, err := b.plain().Do(req)
	require.NoError(b.t, err)
	return decoded(b.t, resp)
}

// request returns a request to the API without a token.
func (b *browser) request(method, path string) *http.Request {
	b.t.Helper()
	req, err := http.NewRequest(method, b.fake.Site().BaseURL+path, nil)
	require.NoError(b.t, err)
	return req
}

func decoded(t testing.TB, resp *http.Response) response {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := response{t: t, status: resp.StatusCode, header: resp.Header, text: string(text)}
	require.NotEmpty(t, resp.Header.Get("X-Request-Id"))
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		require.NoError(t, json.Unmarshal(text, &a.body), "%s", text)
	}
	return a
}

// ok requires a status and returns the value under a path of keys.
func (a response) ok(status int, path ...string) any {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.text)
	var at any = a.body
	for _, key := range path {
		object, isObject := at.(map[string]any)
		require.True(a.t, isObject, "%s", a.text)
		require.Contains(a.t, object, key)
		at = object[key]
	}
	return at
}

// object is like ok for an object.
func (a response) object(status int, path ...string) map[string]any {
	a.t.Helper()
	return a.ok(status, path...).(map[string]any)
}

// column returns a field of each item in a list.
func (a response) column(key, field string) []any {
	a.t.Helper()
	values := []any{}
	for _, item := range a.ok(200, key).([]any) {
		values = append(values, item.(map[string]any)[field])
	}
	return values
}

// rejected requires a status and a text in the response.
func (a response) rejected(status int, text string) {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.text)
	require.Contains(a.t, a.text, text)
}

// keysOf returns the sorted keys of an object.
func keysOf(object any) []string {
	var keys []string
	for key := range object.(map[string]any) {
		keys = append(keys, key)
	}
	return keys
}

// receiver is an integrator's endpoint that follows a script.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	response func(n int, w http.ResponseWriter, challenge string)
	secret   string
	got      []received
}

type received struct {
	body   string
	header http.Header
}

// newReceiver returns a receiver without a server. The first argument of script counts
// requests from 1. Without a script it responds with the challenge.
func newReceiver(script func(n int, w http.ResponseWriter, challenge string)) *receiver {
	return &receiver{response: script}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.got = append(r.got, received{body: string(body), header: req.Header})
	n, challenge := len(r.got), r.secret
	r.mu.Unlock()
	if r.response != nil {
		r.response(n, w, challenge)
		return
	}
	acknowledge(w, challenge)
}

// listen starts a receiver on a socket.
func listen(t testing.TB, script func(n int, w http.ResponseWriter, challenge string)) *receiver {
	rec := newReceiver(script)
	rec.Server = httptest.NewServer(rec)
	t.Cleanup(rec.Close)
	return rec
}

func acknowledge(w http.ResponseWriter, challenge string) {
	_ = json.NewEncoder(w).Encode(map[string]string{"challenge": challenge})
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

// activate activates every integration, so that events are sent.
func activate(t testing.TB, fake *Server) {
	t.Helper()
	for _, key := range fake.ClinicKeys() {
		_, err := fake.Clinics.ActivateKey(key)
		if !errors.Is(err, model.ErrState) { // already active
			require.NoError(t, err)
		}
	}
}

// subscribe registers a receiver with a platform.
func (b *browser) subscribe(r *receiver, types ...string) {
	b.t.Helper()
	r.mu.Lock()
	r.secret = b.fake.Application().ChallengeToken
	r.mu.Unlock()
	activate(b.t, b.fake)
	require.NoError(b.t, b.fake.Webhooks.Register(r.URL, types...))
}

// hosts registers a receiver that needs no socket.
func (b *browser) hosts(script func(n int, w http.ResponseWriter, challenge string), types ...string) *receiver {
	b.t.Helper()
	r := newReceiver(script)
	r.secret = b.fake.Application().ChallengeToken
	activate(b.t, b.fake)
	require.NoError(b.t, b.fake.Webhooks.RegisterHandler(r, types...))
	return r
}

func frozen() *Clock { return FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)) }

// post sends JSON without a token, as for the token endpoint.
func (b *browser) post(path string, body map[string]any) response {
	b.t.Helper()
	anonymous := *b
	anonymous.token = ""
	return anonymous.send("POST", path, body)
}

// credentials returns the fields of a token request.
func (b *browser) credentials(more map[string]any) map[string]any {
	app := b.fake.Application()
	body := map[string]any{"client_id": app.ClientID, "client_secret": app.ClientSecret, "redirect_uri": app.RedirectURI}
	for key, value := range more {
		if value == nil {
			delete(body, key)
			continue
		}
		body[key] = value
	}
	return body
}

func (b *browser) authorizeURL(change url.Values) string {
	app := b.fake.Application()
	query := url.Values{"client_id": {app.ClientID}, "redirect_uri": {app.RedirectURI}, "response_type": {"code"}, "state": {"s t&te"}}
	maps.Copy(query, change)
	return b.fake.Site().AuthURL + "/oauth/authorize?" + query.Encode()
}

// lastRequest returns the latest request. It returns false if there is none.
func lastRequest(fake *Server) (model.Request, bool) {
	all := fake.Journal.Requests()
	if len(all) == 0 {
		return model.Request{}, false
	}
	return all[len(all)-1], true
}

// notSent returns the events that were not sent.
func notSent(fake *Server) []model.Event {
	return slices.DeleteFunc(fake.Events(), func(e model.Event) bool { return e.NotSent == "" })
}
