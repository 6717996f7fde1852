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

// canary is in every secret and every patient: it must show up in no log.
const canary = "c4n4ry"

// platform is the fake with tokens that are the same in every run, and can be told apart
// in a story: what replicas know as a3 and r3 are pair 3.
type platform struct {
	*dispensarytest.Server
	logs logtest.Buffer

	mu      sync.Mutex
	gateway bool              // the next write is answered by something on the way
	names   map[string]string // of real tokens
	real    map[string]string // by name
	issued  int
	token   api.AccessToken // of those who do not refresh

	tell      func(r *http.Request, body []byte) string  // names a request of a replica in the story
	onRefresh func(old, access, refresh string)          // what was granted; empty is refused
	onArrival func(by *schedule.Process, refresh string) // of a pair that a replica was given
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
			return fmt.Errorf("a log holds what must not leave: %s", text[max(0, at-200):min(len(text), at+100)])
		}
		return nil
	})
	return p
}

// issue gives a user's consent, and returns the pair by its names.
func (p *platform) issue(user model.User) model.Token {
	token := p.Tokens.Issue(user)
	token.AccessToken, token.RefreshToken = p.name(token.AccessToken, token.RefreshToken)
	return token
}

// Token implements [api.TokenSource] for calls whose tokens are not what is looked at.
func (p *platform) Token(context.Context) (api.AccessToken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Until(p.token.ExpiresAt) < time.Minute {
		issued := p.Tokens.Issue(model.User{})
		p.token = api.AccessToken{Secret: api.NewSecret(issued.AccessToken), Environment: p.Site().Environment, ExpiresAt: issued.ExpiresAt}
	}
	return p.token, nil
}

// name gives a pair its names. A refresh token that stays keeps its own.
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

// good reports that the platform takes a token, by its name.
func (p *platform) good(name string) bool {
	real := p.realOf(name)
	for _, c := range p.Tokens.Credentials() {
		if c.Value == real {
			return c.Rejection == ""
		}
	}
	return false
}

// RoundTrip implements [http.RoundTripper]: it puts real tokens in the place of names, and
// the other way round.
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

// giveUpOnWrites has the gateway answer 503 to writes that the platform does.
func (p *platform) giveUpOnWrites(s *schedule.Scheduler) {
	s.Action("a gateway gives up on the next write", 2, nil, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gateway = true
		s.Disturb()
	})
}

// gateway stands between replicas and the platform.
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

// granted names the pair in an answer of the token endpoint.
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

// network is the platform as a replica sees it through the scheduler.
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

// short is a token's name without the canary.
func short(name string) string { return strings.TrimPrefix(name, canary+"-") }

// tell names a request in the story.
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
