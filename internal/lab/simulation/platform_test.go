package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
)

// canary is part of every secret and of every patient's data. No log may contain it.
const canary = "c4n4ry"

// platform is the fake platform with readable tokens that are the same in every run. Replicas see
// the tokens of pair 3 as a3 and r3.
type platform struct {
	*dispensarytest.Server
	logs logtest.Buffer

	mu      sync.Mutex
	gateway bool              // a gateway responds with 503 to the next write
	names   map[string]string // names by real token
	real    map[string]string // real tokens by name
	issued  int
	token   api.AccessToken // token for callers that do not refresh

	tell      func(r *http.Request, body []byte) string  // returns the name of a replica's request in the story
	onRefresh func(old, access, refresh string)          // receives the granted pair, or empty names after a rejection
	onArrival func(by *schedule.Process, refresh string) // receives the pair that a replica got
	onUse     func(access string, status int)
	onRequest func(r *http.Request, body []byte, status int)
}

func newPlatform(s *schedule.Scheduler, options ...dispensarytest.Option) *platform {
	options = append([]dispensarytest.Option{
		dispensarytest.WithInMemory(), dispensarytest.WithBehavior(behavior.IntegrationActivationFromTheStart),
	}, options...)
	fake, err := dispensarytest.Start(options...)
	if err != nil {
		panic(err)
	}
	p := &platform{Server: fake, names: map[string]string{}, real: map[string]string{}, tell: tell}
	s.Cleanup(func() { _ = fake.Close() })
	s.InTheEnd(func() error {
		if text := p.logs.String(); strings.Contains(text, canary) {
			at := strings.Index(text, canary)
			return fmt.Errorf("a log contains a secret or patient data: %s", text[max(0, at-200):min(len(text), at+100)])
		}
		return nil
	})
	return p
}

// issue authorizes a user and returns the new pair by its names.
func (p *platform) issue(user model.User) model.Token {
	token := p.Tokens.Issue(user)
	token.AccessToken, token.RefreshToken = p.name(token.AccessToken, token.RefreshToken)
	return token
}

// Token implements [api.TokenSource] for calls of tests that do not check tokens.
func (p *platform) Token(context.Context) (api.AccessToken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Until(p.token.ExpiresAt) < time.Minute {
		issued := p.Tokens.Issue(model.User{})
		p.token = api.AccessToken{Secret: api.NewSecret(issued.AccessToken), Environment: p.Site().Environment, ExpiresAt: issued.ExpiresAt}
	}
	return p.token, nil
}

// name returns the names of a pair. An unchanged refresh token keeps its name.
func (p *platform) name(access, refresh string) (a, r string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.issued++
	a = fmt.Sprintf("%s-a%d", canary, p.issued)
	p.names[access], p.real[a] = a, access
	if r = p.names[refresh]; r == "" {
		r = fmt.Sprintf("%s-r%d", canary, p.issued)
		p.names[refresh], p.real[r] = r, refresh
	}
	return a, r
}

func (p *platform) realOf(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if real, ok := p.real[name]; ok {
		return real
	}
	return name
}

// good reports whether the platform accepts the token with a name.
func (p *platform) good(name string) bool {
	real := p.realOf(name)
	for _, c := range p.Tokens.Credentials() {
		if c.Value == real {
			return c.Rejection == ""
		}
	}
	return false
}

// RoundTrip implements [http.RoundTripper]. It replaces names by real tokens in requests, and real
// tokens by names in responses.
func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	sent := body
	access := bearer(r)
	if access != "" {
		r.Header.Set("Authorization", "Bearer "+p.realOf(access))
	}
	var form map[string]string
	auth := strings.Contains(r.URL.Path, "/oauth/")
	if auth && json.Unmarshal(body, &form) == nil {
		for _, name := range form {
			body = bytes.ReplaceAll(body, []byte(name), []byte(p.realOf(name)))
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response, err := p.HTTPClient().Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if p.onRequest != nil {
		p.onRequest(r, sent, response.StatusCode)
	}
	if form["grant_type"] == "refresh_token" {
		return p.granted(form["refresh_token"], response)
	}
	if access != "" && p.onUse != nil {
		p.onUse(access, response.StatusCode)
	}
	return response, nil
}

// giveUpOnWrites adds an action that makes the gateway respond with 503 to a write although the
// platform applies it.
func (p *platform) giveUpOnWrites(s *schedule.Scheduler) {
	s.Action("a gateway responds with 503 to the next write", 2, nil, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gateway = true
		s.Disturb()
	})
}

// gateway is a gateway between replicas and the platform.
type gateway struct{ p *platform }

// RoundTrip implements [http.RoundTripper].
func (g gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := g.p.RoundTrip(r)
	g.p.mu.Lock()
	defer g.p.mu.Unlock()
	if err != nil || r.Method != http.MethodPost || !g.p.gateway {
		return response, err
	}
	g.p.gateway = false
	_ = response.Body.Close()
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader("<html>")), ContentLength: 6,
	}, nil
}

// granted replaces the pair in a response of the token endpoint by its names.
func (p *platform) granted(old string, response *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	var answer struct {
		OAuth struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		} `json:"oauth"`
	}
	var a, r string
	if json.Unmarshal(body, &answer) == nil && answer.OAuth.Access != "" {
		a, r = p.name(answer.OAuth.Access, answer.OAuth.Refresh)
		body = bytes.ReplaceAll(body, []byte(answer.OAuth.Access), []byte(a))
		body = bytes.ReplaceAll(body, []byte(answer.OAuth.Refresh), []byte(r))
	}
	if p.onRefresh != nil {
		p.onRefresh(old, a, r)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

// network is the connection of a replica to the platform through the scheduler.
type network struct {
	process *schedule.Process
	calls   http.RoundTripper
	p       *platform
}

func (p *platform) seenBy(process *schedule.Process) http.RoundTripper {
	return network{process, process.Transport(gateway{p}, p.tell), p}
}

// RoundTrip implements [http.RoundTripper].
func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	token := strings.HasSuffix(r.URL.Path, "/oauth/token")
	response, err := n.calls.RoundTrip(r)
	if err != nil || !token || n.p.onArrival == nil || !n.process.Alive() {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	if at := bytes.Index(body, []byte(canary+"-r")); at >= 0 {
		end := bytes.IndexByte(body[at:], '"')
		n.p.onArrival(n.process, string(body[at:at+end]))
	}
	return response, err
}

func bearer(r *http.Request) string {
	name, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return name
}

// short returns the name of a token without the canary.
func short(name string) string { return strings.TrimPrefix(name, canary+"-") }

// tell returns the name of a request in the story.
func tell(r *http.Request, body []byte) string {
	path := strings.TrimPrefix(r.URL.Path, "/api")
	var form map[string]string
	if strings.Contains(path, "/oauth/") && json.Unmarshal(body, &form) == nil {
		path += " with " + short(form["refresh_token"]+form["token"])
	}
	if access := bearer(r); access != "" {
		path += " as " + short(access)
	}
	return r.Method + " " + path
}
