package dispensary

import (
	"context"
	"fmt"
	"iter"
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

// Client calls one site of the platform. Create it with [New], share it, and derive a view for
// each user with [Client.With]. It is safe for concurrent use.
type Client struct {
	// Catalog reads products and their attributes.
	Catalog catalog.Service

	// Clinic reads and writes the clinic's records.
	Clinic clinic.Service

	// Events reads the platform's record of events and of webhook deliveries.
	Events events.Service

	// TreatmentPlans creates, reads and changes treatment plans.
	TreatmentPlans treatmentplans.Service

	transport *transport.Client
}

// New returns a client for a site. It sends nothing. An invalid option or site is an error of
// New, not of the first call.
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

// With returns a view of the client with other settings, for example with the token of a user,
// the key of a clinic or a limiter for one kind of work:
//
//	jane, err := client.With(dispensary.WithTokenSource(janesTokens))
//
// It accepts every option of [New]. An option replaces the client's setting, except that
// [WithLimiter], [WithObserver] and [WithUserAgent] add to it. A view shares all other
// settings, the connections, and the pauses that the platform requests. It costs a small
// allocation and sends nothing: keep it, or create a new one for each request. The client does
// not change.
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

// Site returns the client's site.
func (c *Client) Site() Site { return c.transport.Site() }

// RawRequest is a request to an endpoint for which this module has no method. See [Client.Do].
type RawRequest struct {
	// Method is an HTTP method in capitals. Only GET and HEAD count as reads, which are
	// retried.
	Method string

	// Path is the path below the site's base URL. It starts with a slash, is
	// percent-encoded as in a URL and contains no query. Encode an ID with
	// [url.PathEscape], which turns a slash into "%2F".
	Path string

	Query url.Values

	// Body is encoded as JSON. Nil sends no body. A json.RawMessage is sent unchanged.
	Body any
}

// Format prints the method only, because path, query and body may contain any data.
func (r RawRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "dispensary.RawRequest(%s)", r.Method)
}

// LogValue logs the method only.
func (r RawRequest) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", "dispensary.RawRequest"), slog.String("method", r.Method))
}

// Do sends a request for which this module has no method, through the same pipeline as all
// other calls, and returns the body of the response. It reaches endpoints with unpublished
// paths, such as the one for versions. In its errors, the route is "(raw)".
//
// A write succeeds only if the response has an X-Request-Id and is a JSON object or empty. Any
// other success matches [ErrMaybeApplied], [api.ErrBadResponse] and [api.ErrUntrusted].
// API section: "Versions".
func (c *Client) Do(ctx context.Context, r RawRequest, options ...api.RequestOption) ([]byte, error) {
	return transport.Raw(ctx, c.transport, r.Method, r.Path, r.Query, r.Body, options)
}

// DoPages is [Client.Do] for a list. It returns the body of each page, in order. It starts at
// the page[number] in the query, or at the first page, and requests the page[size] in the query,
// or 100 records. An error ends the sequence: like an [api.List], the last one is an
// [api.IncompleteListError] if the list ends before its count of records.
// API section: "Pagination".
func (c *Client) DoPages(ctx context.Context, r RawRequest, options ...api.RequestOption) iter.Seq2[[]byte, error] {
	return transport.RawPages(ctx, c.transport, r.Method, r.Path, r.Query, r.Body, options)
}
