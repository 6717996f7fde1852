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

// checkTimeout is the longest duration of one check. Refreshing a token and waiting for the
// end of a lease have no limit.
const checkTimeout = 15 * time.Second

// run is one run. Each field below config is written by one check and read by those
// after it.
type run struct {
	config Config
	client *oauth.Client // nil if the application cannot be used
	err    error         // why

	answer     *answer // of the site
	record     tokenstore.Record
	access     api.AccessToken // to call with
	endpointAt *answer         // the answer to a signed probe
	forged     *answer         // the answer to a body that was signed wrongly
	deliveries []events.Delivery
	stats      engine.Stats
}

func (r *run) environment() api.Environment { return r.config.OAuth.Site.Environment }

// caller is a client that calls with one token, once.
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

// oneToken is a source of one token.
type oneToken api.AccessToken

// Token implements [api.TokenSource].
func (t oneToken) Token(context.Context) (api.AccessToken, error) { return api.AccessToken(t), nil }

// madeUp is a text that no one else uses.
func madeUp() string { return "doctor-" + rand.Text() }

// answer is what a server answered, or why it did not.
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
		return &answer{err: errors.New("doctor: not an address")} // the error repeats the address
	}
	return r.do(&http.Client{Transport: r.config.OAuth.Transport}, request)
}

// hostOf returns the host of an address that was checked.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
