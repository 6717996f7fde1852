package listen_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	address   = "https://ehr.example.com"
	secret    = "Zaphod-Secret"
	challenge = "Zaphod-Challenge"
)

// response is a transport with the same response for every request.
type response struct {
	status int
	body   string
	after  time.Duration
	got    *http.Request
	sent   string
}

func (a *response) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.got, a.sent = r, string(body)
	select {
	case <-time.After(a.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	header := http.Header{"Location": {"https://elsewhere.example.com"}}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

var (
	sandbox = api.USSandbox
	key     = webhook.Key{Environment: sandbox, EventID: "evt_1", IntegrationID: "in_1"}
	event   = events.Event{ID: "evt_1", Type: events.TypeOrderPlaced, ClinicID: "cl_1", Data: []byte(`{"order":{"id":"or_1"}}`)}
)

func TestForwardAddsHeaders(t *testing.T) {
	t.Parallel()
	network := &response{status: http.StatusOK, body: `{"challenge":"` + challenge + `"}`}
	config := listen.ForwarderConfig{
		URL: address, Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge), HTTPClient: &http.Client{Transport: network},
		Header: http.Header{"X-Tunnel": {"a", "b"}, "Host": {"ehr.internal"}, "User-Agent": {"other"}},
	}
	f, err := listen.NewForwarder(config)
	require.NoError(t, err)
	require.NoError(t, f.Forward(t.Context(), key, event).Err)
	assert.Equal(t, []string{"a", "b"}, network.got.Header["X-Tunnel"])
	assert.Equal(t, "ehr.internal", network.got.Host)
	assert.Equal(t, "other", network.got.UserAgent())
	assert.Equal(t, "application/json", network.got.Header.Get("Content-Type"))
	for _, name := range []string{webhook.SignatureHeader, "Content-Type", "Content-Length", "Transfer-Encoding"} {
		config.Header = http.Header{http.CanonicalHeaderKey(name): {"canary"}}
		_, err = listen.NewForwarder(config)
		require.ErrorIs(t, err, api.ErrArgument, name)
		assert.NotContains(t, err.Error(), "canary")
	}
}

// An event is done only if the platform would count it as delivered.
func TestOnlyAcknowledgmentCompletesEvent(t *testing.T) {
	t.Parallel()
	const right = `{"challenge":"` + challenge + `"}`
	for name, c := range map[string]struct {
		response response
		want     string
	}{
		"200":             {response{status: 200, body: right}, ""},
		"201":             {response{status: 201, body: right}, ""},
		"202":             {response{status: 202, body: right}, "status 202 is neither 200 nor 201"},
		"204":             {response{status: 204}, "status 204 is neither 200 nor 201"},
		"302":             {response{status: 302, body: right}, "status 302 is neither 200 nor 201"},
		"410":             {response{status: 410, body: right}, "the platform would disable the endpoint"},
		"500":             {response{status: 500}, "status 500 is neither 200 nor 201"},
		"not JSON":        {response{status: 200, body: challenge}, "the response is not JSON"},
		"no challenge":    {response{status: 200, body: `{}`}, "does not contain the challenge token"},
		"wrong challenge": {response{status: 200, body: `{"challenge":"x"}`}, "does not contain the challenge token"},
		"endless":         {response{status: 200, body: strings.Repeat(" ", 1<<20) + right}, "the response is not JSON"},
		"slow":            {response{status: 200, body: right, after: time.Minute}, "no response"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				forwarder, err := listen.NewForwarder(listen.ForwarderConfig{
					URL: address + "/webhooks?code=Zaphod", Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge),
					HTTPClient: &http.Client{Transport: &c.response},
				})
				require.NoError(t, err)
				a := forwarder.Forward(t.Context(), key, event)
				if c.want == "" {
					require.NoError(t, a.Err)
					assert.True(t, a.Challenge)
				} else {
					require.ErrorIs(t, a.Err, listen.ErrNotAcknowledged)
					require.ErrorContains(t, a.Err, c.want)
					assert.NotContains(t, a.Err.Error(), "Zaphod")
				}
				assert.Equal(t, "https://ehr.example.com/webhooks?code=Zaphod", c.response.got.URL.String())
				assert.Equal(t, `{"event":{"id":"evt_1","type":"order.placed","created_at":null,"clinic_id":"cl_1","integration_id":"in_1","data":{"order":{"id":"or_1"}}}}`, c.response.sent)
				verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: []api.Secret{api.NewSecret(secret)}})
				require.NoError(t, err)
				require.NoError(t, verifier.Verify(c.response.got.Header.Get("SVC-Signature"), []byte(c.response.sent)))
			})
		})
	}
}

// Production events must not reach other machines in plain text. An unknown transport may use
// a proxy.
func TestProductionEventsNeedPrivateTransport(t *testing.T) {
	t.Parallel()
	production := key
	production.Environment = api.USProduction
	for address, private := range map[string]bool{
		"https://ehr.example.com": true, "https://localhost": true,
		"http://ehr.example.com": false, "http://192.168.1.2:3000": false, "http://localhost.example.com": false, "http://localhost:3000": false,
	} {
		network := &response{status: 200, body: `{"challenge":"` + challenge + `"}`}
		client := &http.Client{Transport: network}
		forwarder, err := listen.NewForwarder(listen.ForwarderConfig{URL: address, Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge), HTTPClient: client})
		require.NoError(t, err)
		require.NoError(t, forwarder.Forward(t.Context(), key, event).Err, address)
		network.got = nil
		err = forwarder.Forward(t.Context(), production, event).Err
		assert.Equal(t, private, network.got != nil, address)
		if !private {
			require.ErrorContains(t, err, "--forward-to")
		}
	}
}

// A proxy could read production events for a receiver on this machine.
func TestLocalReceiverIsReachedWithoutProxy(t *testing.T) {
	t.Parallel()
	respond := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"challenge":"`+challenge+`"}`)
	}
	receiver := httptest.NewServer(http.HandlerFunc(respond))
	t.Cleanup(receiver.Close)
	_, port, err := net.SplitHostPort(receiver.Listener.Addr().String())
	require.NoError(t, err)
	proxied := func(*http.Request) (*url.URL, error) { return nil, errors.New("proxy requested") }
	production := key
	production.Environment = api.USProduction
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST", "localhost.", "ehr.localhost", "a.b.LocalHost."} {
		forwarder, err := listen.NewForwarder(listen.ForwarderConfig{
			URL: "http://" + host + ":" + port, Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge),
			HTTPClient: &http.Client{Transport: &http.Transport{Proxy: proxied}},
		})
		require.NoError(t, err)
		assert.NoError(t, forwarder.Forward(t.Context(), production, event).Err, host)
	}
	forwarder, err := listen.NewForwarder(listen.ForwarderConfig{
		URL: "http://ehr.example.com", Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge),
		HTTPClient: &http.Client{Transport: &http.Transport{Proxy: proxied}},
	})
	require.NoError(t, err)
	assert.ErrorContains(t, forwarder.Forward(t.Context(), key, event).Err, "proxy requested", "other receivers use the client's proxy")
}

func TestInvalidForwarderConfigIsRejected(t *testing.T) {
	t.Parallel()
	right := listen.ForwarderConfig{URL: "http://localhost:3000", Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge)}
	for want, change := range map[string]func(*listen.ForwarderConfig){
		"--forward-to must be a URL":                  func(c *listen.ForwarderConfig) { c.URL = "localhost:3000" },
		"--forward-to must not contain a user name":   func(c *listen.ForwarderConfig) { c.URL = "http://a:b@localhost" },
		"webhook secret is empty":                     func(c *listen.ForwarderConfig) { c.Secret = api.Secret{} },
		"webhook secret is empty, or begins or ends":  func(c *listen.ForwarderConfig) { c.Secret = api.NewSecret("x\n") },
		"challenge token is empty":                    func(c *listen.ForwarderConfig) { c.Challenge = api.Secret{} },
		"challenge token is empty, or begins or ends": func(c *listen.ForwarderConfig) { c.Challenge = api.NewSecret(" x") },
		"challenge token must differ":                 func(c *listen.ForwarderConfig) { c.Challenge = c.Secret },
	} {
		c := right
		change(&c)
		_, err := listen.NewForwarder(c)
		require.ErrorContains(t, err, want)
	}
}
