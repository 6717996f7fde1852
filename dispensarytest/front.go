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
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/pages"
	"github.com/dispensary-go/dispensary/internal/httplimit"
	"github.com/dispensary-go/dispensary/openapi"
)

// front serves the platform's origin, in memory or on a socket.
type front struct {
	origin      string
	listener    net.Listener // nil in memory
	net         *memhttp.Network
	http        *http.Server      // nil in memory
	certificate *x509.Certificate // nil without TLS
	client      *http.Client
	requestIDs  ids.Requests
}

// listen sets the platform's origin: on the network in memory, on loopback HTTP or on loopback
// TLS.
func (f *front) listen(set settings) (err error) {
	if set.inMemory {
		f.origin, f.client = memoryOrigin(set.environment), &http.Client{Transport: memhttp.Transport{Network: f.net}}
		return nil
	}
	pool := &http.Transport{MaxIdleConnsPerHost: 64}
	f.client = &http.Client{Transport: memhttp.Transport{Network: f.net, Outside: pool}}
	if f.listener, err = net.Listen("tcp", set.Addr); err != nil {
		return fmt.Errorf("dispensarytest: %w", err)
	}
	f.origin = "http://" + f.listener.Addr().String()
	if !set.tls {
		return nil
	}
	certificate, err := memhttp.LoopbackCertificate()
	if err != nil {
		_ = f.listener.Close()
		return fmt.Errorf("dispensarytest: %w", err)
	}
	f.certificate = certificate.Leaf
	pool.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	pool.TLSClientConfig.RootCAs.AddCert(certificate.Leaf)
	f.origin = "https://" + f.listener.Addr().String()
	f.listener = tls.NewListener(f.listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	return nil
}

// serve serves the platform's origin until close.
func (f *front) serve(handler http.Handler) {
	if f.listener == nil {
		f.net.SetHome(f.origin, handler)
		return
	}
	if at, ok := f.listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		handler = f.byLoopbackName(handler)
	}
	f.http = httplimit.Server(handler)
	go func() { _ = f.http.Serve(f.listener) }() // ends with Close
}

// handlerOf returns a handler for the contract, the pages and the API. A method would compile its
// argument types in each importer of [Server].
func handlerOf(requestIDs *ids.Requests, pages *pages.Pages, api *httpapi.API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == contractPath && r.Method == http.MethodGet:
			serveContract(w, requestIDs.Next())
		case pages.Serve(w, r):
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// byLoopbackName rejects requests under a host name other than loopback. They can come from
// web pages whose name resolves to this machine. [Server.Handler] and other addresses do not
// use it, because they are not only for this machine.
func (f *front) byLoopbackName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := (&url.URL{Host: r.Host}).Hostname()
		if memhttp.IsLoopback(strings.ToLower(name)) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header()["X-Request-Id"] = []string{f.requestIDs.Next()}
		httpapi.WriteProblem(w, http.StatusForbidden, "Use a loopback host name, such as localhost")
	})
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
func serveContract(w http.ResponseWriter, requestID string) {
	document := openapi.Document()
	header := w.Header()
	header["X-Request-Id"] = []string{requestID}
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // a client that has left is not an error of the platform
}

// close stops serving and drops open connections.
func (f *front) close() (err error) {
	f.net.Close()
	if f.http != nil {
		err = f.http.Close()
	}
	if f.client != nil {
		f.client.CloseIdleConnections()
	}
	return err
}
