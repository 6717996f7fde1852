package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// rotation is what a platform does to the refresh token that it is sent.
type rotation string

const (
	none      rotation = "none"      // it stays the same
	grace     rotation = "grace"     // it dies when the new access token is first used
	immediate rotation = "immediate" // it dies at once
)

// latency keeps refreshes open long enough for others to come.
const latency = 30 * time.Millisecond

// platform is the token endpoint, in memory.
type platform struct {
	rotation rotation

	// before is called with each refresh token, before the platform acts;
	// after, when it has acted. An error of theirs is a lost connection.
	before, after func(refresh string) error

	mu     sync.Mutex
	owners map[string]string // refresh tokens → whose
	good   map[string]bool   // refresh tokens that have not died
	access map[string]string // access tokens → the refresh token that bought them
	calls  map[string]int    // refreshes that reached the platform, by user, refused ones too
	issued int
}

func newPlatform(mode rotation) *platform {
	return &platform{rotation: mode, owners: map[string]string{}, good: map[string]bool{}, access: map[string]string{}, calls: map[string]int{}}
}

// grant returns the token of a user that has ended, with a good refresh token.
func (p *platform) grant(key tokens.Key) oauth.Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	refresh := "SECRET-first-" + key.User
	p.owners[refresh], p.good[refresh] = key.User, true
	return oauth.Token{
		AccessToken: api.Secret("SECRET-ended-" + key.User), RefreshToken: api.Secret(refresh), TokenType: "Bearer",
		ExpiresAt: time.Now().Add(-time.Hour), Lifetime: oauth.DefaultLifetime, Environment: key.Environment,
	}
}

// RoundTrip implements [http.RoundTripper].
func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]string
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	refresh := body["refresh_token"]
	select {
	case <-time.After(latency):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if p.before != nil {
		if err := p.before(refresh); err != nil {
			return nil, err
		}
	}
	response := p.refresh(refresh)
	if p.after != nil {
		if err := p.after(refresh); err != nil {
			return nil, err
		}
	}
	return response, nil
}

func (p *platform) refresh(old string) *http.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	user := p.owners[old]
	p.calls[user]++
	if !p.good[old] {
		return respond(http.StatusBadRequest, `{"error":"invalid_grant"}`)
	}
	p.issued++
	access, refresh := fmt.Sprintf("SECRET-access-%d", p.issued), fmt.Sprintf("SECRET-refresh-%d", p.issued)
	switch p.rotation {
	case none:
		refresh = old
	case immediate:
		delete(p.good, old)
	}
	p.owners[refresh], p.good[refresh], p.access[access] = user, true, old
	return respond(http.StatusOK, fmt.Sprintf(`{"oauth":{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","expires_in":7200,
		"scope":"catalog:read","created_at":%q,"resource_owner":{"id":%q,"type":"Practitioner"}}}`,
		access, refresh, time.Now().UTC().Format(time.RFC3339), user))
}

// use is a call with an access token.
func (p *platform) use(token api.AccessToken) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	bought, known := p.access[token.Secret.Reveal()]
	if !known {
		return errors.New("401: not an access token of this platform")
	}
	if p.rotation == grace {
		delete(p.good, bought)
	}
	return nil
}

// refreshes returns how often a user's token was refreshed.
func (p *platform) refreshes(user string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[user]
}

func respond(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// replica is one replica of a program on this platform.
func (p *platform) replica(t testing.TB, leaseTTL time.Duration, store tokens.Store) *tokens.Connections {
	t.Helper()
	client, err := oauth.New(oauth.Config{
		Site:     api.Site{Environment: usSandbox, BaseURL: "https://platform.example/api", AuthURL: "https://platform.example"},
		ClientID: "client", ClientSecret: "SECRET-client", RedirectURL: "https://ehr.example/callback",
		HTTPClient: &http.Client{Transport: p},
	})
	require.NoError(t, err)
	conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: store, LeaseTTL: leaseTTL})
	require.NoError(t, err)
	return conns
}

// deadLease is how long a replica that died keeps its user waiting: the shortest
// lease there is. Those who live have leases of the usual length, on which the time
// depends that the platform has for its answers.
const deadLease = time.Second
