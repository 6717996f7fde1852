package dispensary

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Version returns the version of this module in the running program, such as "0.1.0", or
// "devel" if the build recorded none. The User-Agent header contains it.
func Version() string { return transport.Version() }

// Client talks to one site of the platform. Make one with [New], share it, and
// derive a view for each user with [Client.With]. It is safe for concurrent use.
type Client struct {
	// Catalog reads products and what describes them.
	Catalog catalog.Service

	// Clinic reads and writes the clinic's records.
	Clinic clinic.Service

	// Events reads the record of what happened on the platform, and of the
	// webhooks that reported it.
	Events events.Service

	// TreatmentPlans creates and follows treatment plans.
	TreatmentPlans treatmentplans.Service

	transport *transport.Client
}

// New returns a client for a site. It sends nothing. An option or a site that
// cannot work is an error here, not at the first call.
func New(site Site, options ...Option) (*Client, error) {
	c := config{Site: site}
	if err := apply(&c, options); err != nil {
		return nil, err
	}
	t, err := transport.New(c)
	if err != nil {
		return nil, err
	}
	return newClient(t), nil
}

// With returns a view of the client with other settings, for example with the token of a
// user, the key of a clinic or a limiter for one kind of work:
//
//	jane, err := client.With(dispensary.WithTokenSource(janesTokens))
//
// It takes every option of [New]. An option replaces the client's setting, except that
// [WithLimiter], [WithObserver] and [WithUserAgent] add to it. A view shares the other
// settings, the connections, and the waits that the platform asks for. It costs a small
// allocation and sends nothing: keep it, or make a new one for each request. The client
// does not change.
//
// The error is an [*api.ArgumentError], as from [New].
func (c *Client) With(options ...Option) (*Client, error) {
	t, err := c.transport.With(func(settings *config) error { return apply(settings, options) })
	if err != nil {
		return nil, err
	}
	return newClient(t), nil
}

// apply applies options in their order.
func apply(c *config, options []Option) error {
	for _, option := range options {
		if option == nil {
			continue
		}
		if err := option(c); err != nil {
			return err
		}
	}
	return nil
}

func newClient(t *transport.Client) *Client {
	return &Client{
		Catalog:        catalog.NewService(t),
		Clinic:         clinic.NewService(t),
		Events:         events.NewService(t),
		TreatmentPlans: treatmentplans.NewService(t),
		transport:      t,
	}
}

// Site returns the site the client talks to.
func (c *Client) Site() Site { return c.transport.Site() }

// RawRequest is a request to an endpoint that this module does not know. See
// [Client.Do].
type RawRequest struct {
	// Method is an HTTP method in capitals; only GET and HEAD are treated as
	// reads, which are retried.
	Method string

	// Path is the path below the site's base URL. It starts with a slash, is
	// percent-encoded as in a URL and contains no query. Encode an ID with
	// [url.PathEscape], which turns a slash into "%2F".
	Path string

	Query url.Values

	// Body is encoded as JSON; nil sends none. A json.RawMessage is sent as it
	// is.
	Body any
}

// Format prints the method only: path, query and body may hold anything.
func (r RawRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "dispensary.RawRequest(%s)", r.Method)
}

// LogValue logs the method only.
func (r RawRequest) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", "dispensary.RawRequest"), slog.String("method", r.Method))
}

// Do sends a request that no method of this module covers, with everything the
// pipeline does for the others, and returns the body of the answer. It reaches
// endpoints whose paths are not published, such as the one for versions.
// Its errors call the route "(raw)".
//
// A write succeeds only if the response has an X-Request-Id and is a JSON object or empty.
// Any other success matches [ErrMaybeApplied], [api.ErrBadResponse] and [api.ErrUntrusted].
// API section: "Versions".
func (c *Client) Do(ctx context.Context, r RawRequest, options ...api.RequestOption) ([]byte, error) {
	return transport.Raw(ctx, c.transport, r.Method, r.Path, r.Query, r.Body, options)
}
