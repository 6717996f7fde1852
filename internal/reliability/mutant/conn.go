package mutant

import (
	"bytes"
	"encoding/binary"
	"net"
)

// Conn returns a connection to PostgreSQL with the mistake, for drivers that are none of
// database/sql. What comes from the server stays as it is.
func (m *Mutant) Conn(plain net.Conn) net.Conn { return &conn{Conn: plain, mutant: m} }

// conn rewrites statements in the messages that are sent.
type conn struct {
	net.Conn
	mutant *Mutant
	begun  bool   // the first message, which has no type, was sent
	rest   []byte // of a message that has not been written to its end
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	var out []byte
	for c.rest = append(c.rest, p...); ; {
		size := c.size()
		if size == 0 || size > len(c.rest) {
			break
		}
		out = append(out, c.rewrite(c.rest[:size])...)
		c.begun, c.rest = true, c.rest[size:]
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// header is how many bytes come before the length of a message.
func (c *conn) header() int {
	if c.begun {
		return 1
	}
	return 0
}

// size is that of the next message, or 0 if its length is not known yet.
func (c *conn) size() int {
	from := c.header()
	if len(c.rest) < from+4 {
		return 0
	}
	return from + int(binary.BigEndian.Uint32(c.rest[from:]))
}

// rewrite returns what is sent in place of a message. A statement that is prepared comes
// after its name.
func (c *conn) rewrite(message []byte) []byte {
	const parse = 'P'
	if !c.begun || message[0] != parse {
		return message
	}
	name, rest, _ := bytes.Cut(message[5:], []byte{0})
	query, types, _ := bytes.Cut(rest, []byte{0})
	body := bytes.Join([][]byte{name, []byte(c.mutant.mutate(string(query))), types}, []byte{0})
	return append(binary.BigEndian.AppendUint32([]byte{parse}, uint32(len(body)+4)), body...)
}
