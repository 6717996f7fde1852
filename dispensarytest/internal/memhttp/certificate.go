package memhttp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// LoopbackCertificate is made once in a process. Its dates are fixed and far
// apart, so that it holds on every clock, that of a synctest bubble included.
var LoopbackCertificate = sync.OnceValues(func() (tls.Certificate, error) {
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

// TLSOrPlain speaks TLS, and plain HTTP with those who come without: they
// reach the platform, which refuses them in its own words and writes them down,
// as the API says of calls over HTTP.
type TLSOrPlain struct{ net.Listener }

// Accept implements [net.Listener].
func (l TLSOrPlain) Accept() (net.Conn, error) {
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

func (c *eitherConn) find() (net.Conn, error) {
	c.once.Do(func() {
		first := make([]byte, 1)
		if _, c.err = io.ReadFull(c.Conn, first); c.err != nil {
			return
		}
		c.plain = &unreadConn{Conn: c.Conn, unread: first}
		if first[0] == tlsHandshake {
			certificate, err := LoopbackCertificate()
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

// tlsHandshake is the first byte of a TLS connection.
const tlsHandshake = 0x16

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

func KeepConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// WithTLSState fills in what the server does for connections it knows to be TLS.
func WithTLSState(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(*eitherConn); ok && conn.secure != nil {
			state := conn.secure.ConnectionState()
			r.TLS = &state
		}
		next.ServeHTTP(w, r)
	})
}
