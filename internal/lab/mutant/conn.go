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
// after its name, and one without arguments, as of a schema, comes alone.
func (c *conn) rewrite(message []byte) []byte {
	const parse, query = 'P', 'Q'
	if !c.begun || message[0] != parse && message[0] != query {
		return message
	}
	parts := bytes.Split(message[5:], []byte{0})
	statement := &parts[0]
	if message[0] == parse {
		statement = &parts[1]
	}
	*statement = []byte(c.mutant.mutate(string(*statement)))
	body := bytes.Join(parts, []byte{0})
	return append(binary.BigEndian.AppendUint32([]byte{message[0]}, uint32(len(body)+4)), body...)
}
