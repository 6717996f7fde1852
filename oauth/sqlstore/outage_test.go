package sqlstore_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

// outage takes a database away and brings it back.
type outage struct{ begin, end func() }

// behindOutage returns the database as it is seen by a program that can lose it:
// a server behind a line that can be cut, a file whose tables can be missing.
func (d database) behindOutage(t *testing.T) (database, outage) {
	t.Helper()
	if d.dialect == sqlstore.SQLite {
		db := d.migrated(t)
		return d, outage{
			begin: func() { d.exec(t, db, "ALTER TABLE {tokens} RENAME TO away") },
			end:   func() { d.exec(t, db, "ALTER TABLE away RENAME TO {tokens}") },
		}
	}
	var target string
	if d.dialect == sqlstore.PostgreSQL {
		u, err := url.Parse(d.name)
		require.NoError(t, err)
		target = u.Host
	} else {
		_, rest, _ := strings.Cut(d.name, "@tcp(")
		target, _, _ = strings.Cut(rest, ")")
	}
	l := newLine(t, target)
	d.name = strings.Replace(d.name, target, l.listener.Addr().String(), 1)
	return d, outage{begin: l.cut, end: l.restore}
}

// line forwards connections to a server.
type line struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	dead  bool
	conns map[net.Conn]bool
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{target: target, listener: listener, conns: map[net.Conn]bool{}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
	})
	return l
}

func (l *line) forward(from net.Conn) {
	to, err := net.Dial("tcp", l.target)
	if err != nil || !l.keep(from, to) {
		_ = from.Close()
		return
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	wg.Wait()
}

// keep notes the connections, unless the line is cut.
func (l *line) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.dead {
			_ = c.Close()
		} else {
			l.conns[c] = true
		}
	}
	return !l.dead
}

// cut drops all connections, and those that come.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// restore lets new connections through again.
func (l *line) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}
