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

// listen sets the platform's origin: on the network in memory, on loopback HTTP or on loopback
// TLS.
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

// serve serves the platform's origin until [Server.Close].
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

// Handler returns the platform as a handler for your own server. URLs in its responses still
// begin with the URLs of [Server.Site].
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

// byLoopbackName rejects requests under a host name other than loopback. They can come from
// web pages whose name resolves to this machine. [Server.Handler] and other addresses do not
// use it, because they are not only for this machine.
func (s *Server) byLoopbackName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := (&url.URL{Host: r.Host}).Hostname()
		if memhttp.IsLoopback(strings.ToLower(name)) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header()["X-Request-Id"] = []string{s.requestIDs.Next()}
		httpapi.WriteProblem(w, http.StatusForbidden, "Use a loopback host name, such as localhost")
	})
}

// HTTPClient returns a client for the platform and for handlers from [Server.Host]. It trusts
// the platform's certificate, follows redirects, and has no timeout. Its connections end with
// the server.
func (s *Server) HTTPClient() *http.Client { return s.client }

// Certificate returns the certificate of a platform with [WithTLS], for your own client to
// trust. It returns nil without TLS. [Server.HTTPClient] already trusts it.
func (s *Server) Certificate() *x509.Certificate { return s.certificate }

// Host adds your own handler to the platform's network without a socket. [Browser],
// [Server.HTTPClient] and the webhook sender reach it under the origin, for example
// "https://ehr.example.com". It replaces an earlier handler of the origin.
//
// Each request runs on a new goroutine. A panic there appears to the caller as a dropped
// connection. Host works with every kind of platform. Together with [WithInMemory], a whole
// integration runs inside testing/synctest.
func (s *Server) Host(origin string, handler http.Handler) error {
	if err := s.net.Host(origin, handler); err != nil {
		return fmt.Errorf("dispensarytest: Host(%q): %w", origin, err)
	}
	return nil
}

// memoryOrigin returns the origin of a platform without sockets. Its host names are reserved,
// so no resolver knows them.
func memoryOrigin(environment api.Environment) string {
	if environment == api.CanadaSandbox {
		return "https://platform.ca.dispensary.test"
	}
	return "https://platform.us.dispensary.test"
}

// contractPath is the path of the contract, beside the API.
const contractPath = "/openapi.yaml"

// serveContract serves the OpenAPI document of the API, for tools of other languages. The
// request is not a call of the API. It needs no token and does not appear in the journal.
func (s *Server) serveContract(w http.ResponseWriter) {
	document := openapi.Document()
	header := w.Header()
	header["X-Request-Id"] = []string{s.requestIDs.Next()}
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // a client that has left is not an error of the platform
}
