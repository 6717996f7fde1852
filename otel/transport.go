package dispensaryotel

import (
	"net/http"

	"go.opentelemetry.io/otel/propagation"

	"github.com/dispensary-go/dispensary/internal/transport"
)

// Propagate returns a transport that sends the platform, in the traceparent
// header of W3C Trace Context, which trace a request belongs to. Give it to the
// client, whose attempts then are the parents of the platform's own spans:
//
//	dispensary.WithHTTPClient(&http.Client{Transport: dispensaryotel.Propagate(nil)})
//
// A nil base is a new connection pool with the settings of the client's own.
//
// Nothing is sent without it: the platform is a third party's, and it is unknown
// what it makes of the header. Baggage is not sent in any case, as it may hold
// what the program put into it.
func Propagate(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = transport.NewPool()
	}
	return &propagating{base: base}
}

type propagating struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (p *propagating) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // a transport must not change its request
	propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	return p.base.RoundTrip(r)
}
