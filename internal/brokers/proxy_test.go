package brokers_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between receivers and a broker, so that their connections can be cut.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
}

// newProxy stands before the broker of an address, and returns the address with the
// broker's place taken.
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
		p.set(true)
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
	defer p.mu.Unlock()
	delete(p.conns, conn)
	delete(p.conns, server)
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.down {
			_ = conn.Close()
			continue
		}
		p.conns[conn] = true
	}
	return !p.down
}

// set ends all connections, and while it is down lets no new ones through.
func (p *proxy) set(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for conn := range p.conns {
		_ = conn.Close()
		delete(p.conns, conn)
	}
}

// cut ends all connections, and the broker is not to be reached for a while.
func (p *proxy) cut(d time.Duration) {
	p.set(true)
	time.AfterFunc(d, func() { p.set(false) })
}
