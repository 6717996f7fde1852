package dispensarytest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/pages"
	"github.com/dispensary-go/dispensary/internal/httplimit"
	"github.com/dispensary-go/dispensary/openapi"
)

// listen gives the platform its origin: on the network in memory, on loopback HTTP or on
// loopback TLS.
func (s *Server) listen() (err error) {
	if s.set.inMemory {
		s.origin, s.client = memoryOrigin(s.set.environment), &http.Client{Transport: memhttp.Transport{Network: s.net}}
		return nil
	}
	pool := &http.Transport{MaxIdleConnsPerHost: 64}
	s.client = &http.Client{Transport: memhttp.Transport{Network: s.net, Outside: pool}}
	if s.listener, err = net.Listen("tcp", s.set.addr); err != nil {
		return fmt.Errorf("dispensarytest: %w", err)
	}
	s.origin = "http://" + s.listener.Addr().String()
	if !s.set.tls {
		return nil
	}
	certificate, err := memhttp.LoopbackCertificate()
	if err != nil {
		_ = s.listener.Close()
		return fmt.Errorf("dispensarytest: %w", err)
	}
	s.certificate = certificate.Leaf
	pool.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	pool.TLSClientConfig.RootCAs.AddCert(certificate.Leaf)
	s.origin = "https://" + s.listener.Addr().String()
	s.listener = tls.NewListener(s.listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	return nil
}

// serve answers requests to the platform's origin until [Server.Close].
func (s *Server) serve() {
	handler := s.handler
	if s.listener == nil {
		s.net.SetHome(s.origin, handler)
		return
	}
	if at, ok := s.listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		handler = s.byLoopbackName(handler)
	}
	s.http = httplimit.Server(handler)
	go func() { _ = s.http.Serve(s.listener) }() // ends with Close
}

// Handler is the platform as a handler, for your own server. The addresses
// the platform gives out are still those of [Server.Site].
func (s *Server) Handler() http.Handler { return s.handler }

// handle serves the contract, the pages and the API.
func (s *Server) handle(pages *pages.Pages, api *httpapi.API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == contractPath && r.Method == http.MethodGet:
			s.serveContract(w)
		case pages.Serve(w, r):
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// byLoopbackName refuses requests of web pages under another name that resolves to this
// machine. It is not used by [Server.Handler] and on other addresses, which are not for
// this machine alone.
func (s *Server) byLoopbackName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := (&url.URL{Host: r.Host}).Hostname()
		if memhttp.IsLoopback(strings.ToLower(name)) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header()["X-Request-Id"] = []string{s.requestIDs.Next()}
		httpapi.WriteProblem(w, http.StatusForbidden, "Call this by a loopback name, such as localhost")
	})
}

// HTTPClient is a client for the platform, and for what [Server.Host] put onto
// its network. It trusts the platform's certificate, follows redirects, and has
// no time-out. Its connections end with the server.
func (s *Server) HTTPClient() *http.Client { return s.client }

// Certificate is the certificate of a platform with [WithTLS], for your own client
// to trust; nil without. [Server.HTTPClient] trusts it already.
func (s *Server) Certificate() *x509.Certificate { return s.certificate }

// Host puts a server of the integrator's onto the platform's network without a
// socket: [Browser], [Server.HTTPClient] and the webhook sender reach the handler
// under the origin, for example "https://ehr.example.com". A handler that is
// hosted already is replaced.
//
// Each request runs on a new goroutine, whose panics look like a dropped
// connection to the other side. Host works with every kind of platform; together
// with [WithInMemory] a whole integration runs inside testing/synctest.
func (s *Server) Host(origin string, handler http.Handler) error {
	if err := s.net.Host(origin, handler); err != nil {
		return fmt.Errorf("dispensarytest: Host(%q): %w", origin, err)
	}
	return nil
}

// memoryOrigin is where a platform without sockets stands. The names are
// reserved: no resolver knows them.
func memoryOrigin(environment api.Environment) string {
	if environment == api.CanadaSandbox {
		return "https://platform.ca.dispensary.test"
	}
	return "https://platform.us.dispensary.test"
}

// contractPath is where the platform serves its contract, beside the API.
const contractPath = "/openapi.yaml"

// serveContract serves the OpenAPI document of the API, for tools of other
// languages. It is no call of the API: it needs no token and leaves no trace in
// the journal.
func (s *Server) serveContract(w http.ResponseWriter) {
	document := openapi.Document()
	header := w.Header()
	header["X-Request-Id"] = []string{s.requestIDs.Next()}
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // a client that went away is no failure of ours
}
