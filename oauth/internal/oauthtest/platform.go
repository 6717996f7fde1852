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

// Rotation is what the platform does to the old refresh token of a refresh.
type Rotation string

// The rotations.
const (
	RotateNever      Rotation = "none"      // it stays the same
	RotateOnFirstUse Rotation = "grace"     // it dies when the new access token is first used
	RotateAtOnce     Rotation = "immediate" // it dies at once
)

// Platform is the token endpoint of the platform, in memory: a RoundTripper, so
// that time inside synctest bubbles moves by itself.
type Platform struct {
	Rotation Rotation
	Delay    time.Duration // before every answer
	Prefix   string        // of every token

	// Around, if set, answers every call with a refresh token in place of the
	// platform; handle is what the platform would have done.
	Around func(refresh string, handle func() *http.Response) (*http.Response, error)

	mu        sync.Mutex
	grants    map[string]bool   // refresh tokens that are good
	first     map[string]string // refresh token → the first one of its user
	before    map[string]string // access token → the refresh token that bought it
	refreshes map[string]int    // that the platform was asked for, by the first refresh token
	issued    int
	calls     []map[string]string // bodies of the token calls, in order
	routes    []string
	faults    []Fault // one is used up by each call
}

// Fault answers a call instead of the platform; handle is what the platform
// would have done.
type Fault func(handle func() *http.Response) (*http.Response, error)

// NewPlatform returns a platform that knows the refresh token of [FirstToken].
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

// Respond returns an answer of the platform.
func Respond(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Request-Id": {"req-1"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// Inject breaks the next calls, each with one of the faults.
func (p *Platform) Inject(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, faults...)
}

// Replace drops the faults that are left for these.
func (p *Platform) Replace(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// Sent returns the bodies of all calls so far.
func (p *Platform) Sent() []map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]string(nil), p.calls...)
}

// Use is a call with an access token, and reports whether the platform has issued it:
// in grace it kills the refresh token that bought it.
func (p *Platform) Use(access api.Secret) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, issued := p.before[access.Reveal()]
	if p.Rotation == RotateOnFirstUse {
		delete(p.grants, old)
	}
	return issued
}

// Kill makes the platform forget a refresh token.
func (p *Platform) Kill(refresh string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.grants, refresh)
}

// Answers is a fault that answers with a status and a body, and does nothing.
func Answers(status int, body string) Fault {
	return func(func() *http.Response) (*http.Response, error) { return Respond(status, body), nil }
}

// RetryAfter is a fault that asks to come back later.
func RetryAfter(seconds string) Fault {
	return func(func() *http.Response) (*http.Response, error) {
		response := Respond(http.StatusTooManyRequests, `{"error":"slow down"}`)
		response.Header.Set("Retry-After", seconds)
		return response, nil
	}
}

// Loses is a fault after which the platform has done its work and the answer
// does not arrive.
func Loses(handle func() *http.Response) (*http.Response, error) {
	handle()
	return nil, errors.New("connection reset")
}

// Changes is a fault after which the platform has done its work and the answer is
// changed on its way, or something happens meanwhile.
func Changes(change func(response *http.Response)) Fault {
	return func(handle func() *http.Response) (*http.Response, error) {
		response := handle()
		change(response)
		return response, nil
	}
}

// Drops is a fault in which nothing was done and no answer arrives.
func Drops(func() *http.Response) (*http.Response, error) {
	return nil, errors.New("connection reset")
}

// Times returns a fault n times.
func Times(n int, f Fault) []Fault {
	all := make([]Fault, n)
	for i := range all {
		all[i] = f
	}
	return all
}

// Allow makes the platform know the first refresh token of a user.
func (p *Platform) Allow(refresh string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants[refresh], p.first[refresh] = true, refresh
}

// Knows reports whether a refresh token is good.
func (p *Platform) Knows(refresh string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grants[refresh]
}

// Refreshes returns how often the platform was asked to refresh the token of the user
// whose first refresh token is given, also in vain.
func (p *Platform) Refreshes(first string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshes[first]
}

// ForgetAll makes the platform refuse every refresh token, as it does when the
// application's scopes are extended, and returns a function that undoes it.
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

// Routes returns the paths of all calls so far.
func (p *Platform) Routes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.routes)
}
