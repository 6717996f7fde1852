package mutant

import (
	"bytes"
	"encoding/binary"
	"net"
)

// Conn returns a PostgreSQL connection with the mistake, for drivers outside database/sql. It
// does not change the messages from the server.
func (m *Mutant) Conn(plain net.Conn) net.Conn { return &conn{Conn: plain, mutant: m} }

// conn rewrites statements in the messages to the server.
type conn struct {
	net.Conn
	mutant *Mutant
	begun  bool   // the first message was sent; it has no type byte
	rest   []byte // incomplete message
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

// header returns the number of bytes before the length of the next message.
func (c *conn) header() int {
	if c.begun {
		return 1
	}
	return 0
}

// size returns the size of the next message in bytes, or 0 if its length is not known yet.
func (c *conn) size() int {
	from := c.header()
	if len(c.rest) < from+4 {
		return 0
	}
	return from + int(binary.BigEndian.Uint32(c.rest[from:]))
}

// rewrite returns the message to send instead of message. In a parse message, the statement
// follows its name. In a query message, as for a schema, it comes first.
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
