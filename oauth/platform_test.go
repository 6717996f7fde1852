package oauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// rotation is what the platform does to the old refresh token of a refresh.
type rotation string

const (
	none      rotation = "none"      // it stays the same
	grace     rotation = "grace"     // it dies when the new access token is first used
	immediate rotation = "immediate" // it dies at once
)

// platform is the token endpoint of the platform, in memory: a RoundTripper, so
// that time inside synctest bubbles moves by itself.
type platform struct {
	rotation rotation
	delay    time.Duration // before every answer

	mu     sync.Mutex
	grants map[string]bool   // refresh tokens that are good
	before map[string]string // access token → the refresh token that bought it
	issued int
	calls  []map[string]string // bodies of the token calls, in order
	routes []string
	faults []fault // one is used up by each call
}

// fault answers a call instead of the platform; handle is what the platform
// would have done.
type fault func(handle func() *http.Response) (*http.Response, error)

func newPlatform(mode rotation) *platform {
	return &platform{rotation: mode, grants: map[string]bool{"refresh-0": true}, before: map[string]string{}}
}

func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]string
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.calls = append(p.calls, body)
	p.routes = append(p.routes, r.URL.Path)
	var broken fault
	if len(p.faults) > 0 {
		broken, p.faults = p.faults[0], p.faults[1:]
	}
	p.mu.Unlock()
	select {
	case <-time.After(p.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	handle := func() *http.Response { return p.handle(body) }
	if broken != nil {
		return broken(handle)
	}
	return handle(), nil
}

func (p *platform) handle(body map[string]string) *http.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := body["refresh_token"]
	if body["grant_type"] == "refresh_token" && !p.grants[old] {
		return respond(http.StatusUnauthorized, `{"error":"invalid_grant","error_description":"unknown"}`)
	}
	p.issued++
	access, refresh := fmt.Sprintf("access-%d", p.issued), fmt.Sprintf("refresh-%d", p.issued)
	switch p.rotation {
	case none:
		refresh = old
	case immediate:
		delete(p.grants, old)
	}
	p.grants[refresh], p.before[access] = true, old
	return respond(http.StatusOK, fmt.Sprintf(`{"oauth":{"access_token":%q,"refresh_token":%q,"token_type":"Bearer",
		"expires_in":7200,"scope":"catalog:read clinic:read","created_at":%q,
		"resource_owner":{"id":"prac-1","type":"Practitioner"}}}`, access, refresh, time.Now().UTC().Format(time.RFC3339)))
}

func respond(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Request-Id": {"req-1"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func (p *platform) inject(faults ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, faults...)
}

// replace drops the faults that are left for these.
func (p *platform) replace(faults ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// sent returns the bodies of all calls so far.
func (p *platform) sent() []map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]string(nil), p.calls...)
}

// use is a call with an access token: in grace it kills the refresh token that
// bought it.
func (p *platform) use(access api.Secret) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rotation == grace {
		delete(p.grants, p.before[access.Reveal()])
	}
}

// kill makes the platform forget a refresh token.
func (p *platform) kill(refresh string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.grants, refresh)
}

// answers is a fault that answers with a status and a body, and does nothing.
func answers(status int, body string) fault {
	return func(func() *http.Response) (*http.Response, error) { return respond(status, body), nil }
}

// retryAfter is a fault that asks to come back later.
func retryAfter(seconds string) fault {
	return func(func() *http.Response) (*http.Response, error) {
		response := respond(http.StatusTooManyRequests, `{"error":"slow down"}`)
		response.Header.Set("Retry-After", seconds)
		return response, nil
	}
}

// loses is a fault after which the platform has done its work and the answer
// does not arrive.
func loses(handle func() *http.Response) (*http.Response, error) {
	handle()
	return nil, errors.New("connection reset")
}

// drops is a fault in which nothing was done and no answer arrives.
func drops(func() *http.Response) (*http.Response, error) {
	return nil, errors.New("connection reset")
}

func times(n int, f fault) []fault {
	all := make([]fault, n)
	for i := range all {
		all[i] = f
	}
	return all
}
