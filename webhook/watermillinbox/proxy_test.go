package watermillinbox_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between receivers and a server, so that their connections can be
// cut.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   bool
}

// newProxy stands before the server of an address, and returns that with the
// server's place taken.
func newProxy(t *testing.T, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	p := &proxy{target: u.Host, conns: map[net.Conn]bool{}}
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go p.serve()
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.sever(true)
	})
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

func (p *proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.carry(conn)
	}
}

func (p *proxy) carry(conn net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(conn, server) {
		_ = conn.Close()
		return
	}
	go func() {
		_, _ = io.Copy(server, conn)
		_ = server.Close()
	}()
	_, _ = io.Copy(conn, server)
	_, _ = conn.Close(), server.Close()
	p.mu.Lock()
	delete(p.conns, conn)
	delete(p.conns, server)
	p.mu.Unlock()
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.cut {
			_ = conn.Close()
			continue
		}
		p.conns[conn] = true
	}
	return !p.cut
}

// sever ends all connections, and while it is on lets no new ones through.
func (p *proxy) sever(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = on
	for conn := range p.conns {
		_ = conn.Close()
		delete(p.conns, conn)
	}
}

// cutFor ends all connections, and the server is not to be reached for a while.
func (p *proxy) cutFor(d time.Duration) {
	p.sever(true)
	time.AfterFunc(d, func() { p.sever(false) })
}
