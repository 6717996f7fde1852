package oauthtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Rotation is the effect of a refresh on the old refresh token.
type Rotation string

// The rotations.
const (
	RotateNever      Rotation = "none"      // stays valid and is returned again
	RotateOnFirstUse Rotation = "grace"     // becomes invalid once the new access token is used
	RotateAtOnce     Rotation = "immediate" // becomes invalid at once
)

// Platform is the platform's token endpoint in memory. It is a RoundTripper instead of a
// server, so time in synctest bubbles advances without real waiting.
type Platform struct {
	Rotation Rotation
	Delay    time.Duration // before each response
	Prefix   string        // of each token

	// Around, if set, responds to every call that has a refresh token. handle returns the
	// platform's own response.
	Around func(refresh string, handle func() *http.Response) (*http.Response, error)

	mu        sync.Mutex
	grants    map[string]bool   // valid refresh tokens
	first     map[string]string // refresh token → its user's first refresh token
	before    map[string]string // access token → the refresh token sent for it
	refreshes map[string]int    // refresh requests, by the user's first refresh token
	issued    int
	calls     []map[string]string // bodies of the token requests, in order
	routes    []string
	faults    []Fault // each call removes the first
}

// Fault responds to a call instead of the platform. handle returns the platform's own
// response.
type Fault func(handle func() *http.Response) (*http.Response, error)

// NewPlatform returns a platform that accepts the refresh token of [FirstToken].
func NewPlatform(mode Rotation) *Platform {
	return &Platform{
		Rotation: mode, grants: map[string]bool{"refresh-0": true}, first: map[string]string{}, before: map[string]string{}, refreshes: map[string]int{},
	}
}

// RoundTrip implements [http.RoundTripper].
func (p *Platform) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]string
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.calls = append(p.calls, body)
	p.routes = append(p.routes, r.URL.Path)
	var broken Fault
	if len(p.faults) > 0 {
		broken, p.faults = p.faults[0], p.faults[1:]
	}
	p.mu.Unlock()
	select {
	case <-time.After(p.Delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	handle := func() *http.Response { return p.handle(body) }
	switch refresh := body["refresh_token"]; {
	case broken != nil:
		return broken(handle)
	case p.Around != nil && refresh != "":
		return p.Around(refresh, handle)
	}
	return handle(), nil
}

func (p *Platform) handle(body map[string]string) *http.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := body["refresh_token"]
	p.refreshes[p.first[old]]++
	if body["grant_type"] == "refresh_token" && !p.grants[old] {
		return Respond(http.StatusUnauthorized, `{"error":"invalid_grant","error_description":"unknown"}`)
	}
	p.issued++
	access, refresh := fmt.Sprintf("%saccess-%d", p.Prefix, p.issued), fmt.Sprintf("%srefresh-%d", p.Prefix, p.issued)
	switch p.Rotation {
	case RotateNever:
		refresh = old
	case RotateAtOnce:
		delete(p.grants, old)
	}
	p.grants[refresh], p.first[refresh], p.before[access] = true, p.first[old], old
	return Respond(http.StatusOK, fmt.Sprintf(`{"oauth":{"access_token":%q,"refresh_token":%q,"token_type":"Bearer",
		"expires_in":7200,"scope":"catalog:read clinic:read","created_at":%q,
		"resource_owner":{"id":"prac-1","type":"Practitioner"}}}`, access, refresh, time.Now().UTC().Format(time.RFC3339)))
}

// Respond returns a response of the platform.
func Respond(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Request-Id": {"req-1"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// Inject queues faults. Each of the next calls uses one.
func (p *Platform) Inject(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, faults...)
}

// Replace replaces all queued faults with faults.
func (p *Platform) Replace(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// Sent returns the bodies of all calls.
func (p *Platform) Sent() []map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]string(nil), p.calls...)
}

// Use simulates a call with an access token. It reports whether the platform issued the token.
// With [RotateOnFirstUse], it invalidates the refresh token sent for it.
func (p *Platform) Use(access api.Secret) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, issued := p.before[access.Reveal()]
	if p.Rotation == RotateOnFirstUse {
		delete(p.grants, old)
	}
	return issued
}

// Kill invalidates a refresh token.
func (p *Platform) Kill(refresh string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.grants, refresh)
}

// Responses returns a fault with a fixed status and body, without a change of state.
func Responses(status int, body string) Fault {
	return func(func() *http.Response) (*http.Response, error) { return Respond(status, body), nil }
}

// RetryAfter returns a fault that responds with 429 and Retry-After.
func RetryAfter(seconds string) Fault {
	return func(func() *http.Response) (*http.Response, error) {
		response := Respond(http.StatusTooManyRequests, `{"error":"slow down"}`)
		response.Header.Set("Retry-After", seconds)
		return response, nil
	}
}

// Loses is a fault: it handles the request and loses the response.
func Loses(handle func() *http.Response) (*http.Response, error) {
	handle()
	return nil, errors.New("connection reset")
}

// Changes returns a fault that handles the request and then calls change with the response.
// change may also do something else at that moment.
func Changes(change func(response *http.Response)) Fault {
	return func(handle func() *http.Response) (*http.Response, error) {
		response := handle()
		change(response)
		return response, nil
	}
}

// Drops is a fault: it loses the request before the platform handles it.
func Drops(func() *http.Response) (*http.Response, error) {
	return nil, errors.New("connection reset")
}

// Times returns n copies of a fault.
func Times(n int, f Fault) []Fault {
	all := make([]Fault, n)
	for i := range all {
		all[i] = f
	}
	return all
}

// Allow registers refresh as the first refresh token of a user.
func (p *Platform) Allow(refresh string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants[refresh], p.first[refresh] = true, refresh
}

// Knows reports whether a refresh token is valid.
func (p *Platform) Knows(refresh string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grants[refresh]
}

// Refreshes returns the number of refresh requests for the user whose first refresh token is
// first, including rejected ones.
func (p *Platform) Refreshes(first string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshes[first]
}

// ForgetAll invalidates all refresh tokens, as the platform does if the application gets more
// scopes. undo makes them valid again.
func (p *Platform) ForgetAll() (undo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := maps.Clone(p.grants)
	clear(p.grants)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.grants = known
	}
}

// Routes returns the paths of all calls.
func (p *Platform) Routes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.routes)
}
