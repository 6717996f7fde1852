package doctor

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// checkTimeout is the longest duration of one check. Patient checks have no such limit: the
// token refresh and the wait for a lease.
const checkTimeout = 15 * time.Second

// run is one run of the checks. One check writes each field below config, and later checks
// read it.
type run struct {
	config Config
	client *oauth.Client // nil if err is not nil
	err    error         // of the application's configuration

	answer     *answer // from the site
	record     tokenstore.Record
	access     api.AccessToken // authorizes calls
	endpointAt *answer         // response to a correctly signed probe
	forged     *answer         // response to a body with a wrong signature
	deliveries []events.Delivery
	stats      engine.Stats
}

func (r *run) environment() api.Environment { return r.config.OAuth.Site.Environment }

// caller returns a client that uses one token and makes at most two attempts per call.
func (r *run) caller(token api.AccessToken) (*dispensary.Client, error) {
	options := []dispensary.Option{
		dispensary.WithTransport(r.config.OAuth.Transport), dispensary.WithTokenSource(oneToken(token)),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2}),
	}
	if !r.config.ClinicKey.IsZero() {
		options = append(options, dispensary.WithClinicKey(r.config.ClinicKey))
	}
	return dispensary.New(r.config.OAuth.Site, options...)
}

// oneToken is a token source that always returns one token.
type oneToken api.AccessToken

// Token implements [api.TokenSource].
func (t oneToken) Token(context.Context) (api.AccessToken, error) { return api.AccessToken(t), nil }

// madeUp returns a random text, which no other program uses.
func madeUp() string { return "doctor-" + rand.Text() }

// answer is the response of a server, or the error of the request.
type answer struct {
	err    error
	status int
	header http.Header
	body   []byte
	tls    *tls.ConnectionState
	took   time.Duration
	at     time.Time
}

// do sends a request, without following redirects.
func (r *run) do(client *http.Client, request *http.Request) *answer {
	direct := *client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	start := r.config.Now()
	response, err := direct.Do(request)
	if err != nil {
		return &answer{err: err, at: r.config.Now(), took: r.config.Now().Sub(start)}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	_ = response.Body.Close()
	now := r.config.Now()
	return &answer{err: err, status: response.StatusCode, header: response.Header, body: body, tls: response.TLS, took: now.Sub(start), at: now}
}

func (r *run) get(ctx context.Context, address string) *answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return &answer{err: errors.New("doctor: invalid URL")} // err repeats the URL
	}
	return r.do(&http.Client{Transport: r.config.OAuth.Transport}, request)
}

// hostOf returns the host of a valid URL.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
