package dispensarytest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// open makes the platform reachable: on the network in memory, on loopback HTTP
// or on loopback TLS.
func (s *Server) open() error {
	if s.set.inMemory {
		s.origin = memoryOrigin(s.set.region)
		s.net.settle(s.origin, s.Handler())
		s.client = &http.Client{Transport: route{net: s.net}}
		return nil
	}
	pool := &http.Transport{MaxIdleConnsPerHost: 64}
	s.client = &http.Client{Transport: route{net: s.net, outside: pool}}
	if s.set.tls {
		certificate, err := loopbackCertificate()
		if err != nil {
			return fmt.Errorf("dispensarytest: %w", err)
		}
		s.certificate = certificate.Leaf
		pool.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		pool.TLSClientConfig.RootCAs.AddCert(certificate.Leaf)
	}
	return s.listen()
}

// listen opens the socket and serves it.
func (s *Server) listen() error {
	listener, err := net.Listen("tcp", s.set.addr)
	if err != nil {
		return fmt.Errorf("dispensarytest: %w", err)
	}
	s.origin = "http://" + listener.Addr().String()
	handler := s.Handler()
	if at, ok := listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		handler = s.byLoopbackName(handler)
	}
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		// What a client does wrong on the wire is not news to the test's log.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if s.set.tls {
		s.origin = "https://" + listener.Addr().String()
		listener = secureListener{listener}
		s.http.Handler, s.http.ConnContext = tellTLS(s.http.Handler), keepConn
	}
	go func() { _ = s.http.Serve(listener) }() // ends with Close
	return nil
}

// byLoopbackName keeps out web pages under a name of their own that resolves to this
// machine. [Server.Handler] and other addresses are not for this machine alone.
func (s *Server) byLoopbackName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := (&url.URL{Host: r.Host}).Hostname()
		if isLoopback(strings.ToLower(name)) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header()["X-Request-Id"] = []string{s.requestIDs.next()}
		writeJSON(w, http.StatusForbidden, bare(problemOf(http.StatusForbidden, "Call this by a loopback name, such as localhost").body(shapeByStatus, http.StatusForbidden)), "", nil)
	})
}

// Certificate is the certificate of a platform with [WithTLS], for a client of
// one's own to trust; nil without. [Server.HTTPClient] trusts it already.
func (s *Server) Certificate() *x509.Certificate { return s.certificate }

// loopbackCertificate is made once in a process. Its dates are fixed and far
// apart, so that it holds on every clock, that of a synctest bubble included.
var loopbackCertificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "dispensarytest"},
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
})

// secureListener speaks TLS, and plain HTTP with those who come without: they
// reach the platform, which refuses them in its own words and writes them down,
// as the API says of calls over HTTP.
type secureListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l secureListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &eitherConn{Conn: conn}, nil
}

// eitherConn finds out with its first byte which of the two it is. No goroutine
// waits for that byte but the server's own.
type eitherConn struct {
	net.Conn
	once   sync.Once
	secure *tls.Conn // nil for plain HTTP
	plain  net.Conn
	err    error
}

// tlsHandshake is the first byte of a TLS connection.
const tlsHandshake = 0x16

func (c *eitherConn) find() (net.Conn, error) {
	c.once.Do(func() {
		first := make([]byte, 1)
		if _, c.err = io.ReadFull(c.Conn, first); c.err != nil {
			return
		}
		c.plain = &unreadConn{Conn: c.Conn, unread: first}
		if first[0] == tlsHandshake {
			certificate, err := loopbackCertificate()
			c.secure, c.err = tls.Server(c.plain, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}), err
		}
	})
	if c.secure != nil {
		return c.secure, c.err
	}
	return c.plain, c.err
}

// Read implements [net.Conn].
func (c *eitherConn) Read(p []byte) (int, error) {
	conn, err := c.find()
	if err != nil {
		return 0, err
	}
	return conn.Read(p)
}

// Write implements [net.Conn]. The server reads before it writes.
func (c *eitherConn) Write(p []byte) (int, error) {
	conn, err := c.find()
	if err != nil {
		return 0, err
	}
	return conn.Write(p)
}

// CloseWrite lets the server finish an answer to a client that still sends.
func (c *eitherConn) CloseWrite() error {
	conn, err := c.find()
	if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
		return half.CloseWrite()
	}
	return err
}

// unreadConn gives back what was read too early.
type unreadConn struct {
	net.Conn
	unread []byte
}

// Read implements [net.Conn].
func (c *unreadConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// CloseWrite implements the half of [net.TCPConn] that the server asks for.
func (c *unreadConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connKey struct{}

func keepConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// tellTLS fills in what the server does for connections it knows to be TLS.
func tellTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(*eitherConn); ok && conn.secure != nil {
			state := conn.secure.ConnectionState()
			r.TLS = &state
		}
		next.ServeHTTP(w, r)
	})
}
