package events

import "fmt"

// maxDepth is how deep arrays and objects may nest; encoding/json, which reads
// the data later, draws the same line.
const maxDepth = 10_000

// scanner walks over JSON text once, checks all of its grammar as encoding/json
// does, and builds nothing. Finding the few fields of an event in a body is
// several times faster this way than decoding it.
//
// Its methods return false where the text is not JSON and leave pos there.
type scanner struct {
	data []byte
	pos  int
}

// malformed returns the error that tells where the scanner stopped.
func (s *scanner) malformed() error { return fmt.Errorf("%w at byte %d", ErrMalformed, s.pos) }

// next skips white space and returns the byte after it, or 0 at the end.
func (s *scanner) next() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// end reports that nothing but white space is left.
func (s *scanner) end() bool {
	s.next()
	return s.pos == len(s.data)
}

// value skips one value of any kind; depth counts the arrays and objects it
// stands in.
func (s *scanner) value(depth int) bool {
	switch c := s.next(); {
	case c == '"':
		return s.text()
	case c == '{':
		return s.members(depth+1, nil)
	case c == '[':
		return s.elements(depth + 1)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return false
}

// members walks over the object at pos. For each member it calls visit with the
// key, quotes included, and with pos before the value; visit moves past the
// value. A nil visit skips all values.
func (s *scanner) members(depth int, visit func(key []byte) bool) bool {
	if depth > maxDepth {
		return false
	}
	s.pos++ // {
	if s.next() == '}' {
		s.pos++
		return true
	}
	for {
		if s.next() != '"' {
			return false
		}
		start := s.pos
		if !s.text() {
			return false
		}
		key := s.data[start:s.pos]
		if s.next() != ':' {
			return false
		}
		s.pos++
		if visit == nil && !s.value(depth) || visit != nil && !visit(key) {
			return false
		}
		if more, ok := s.separator('}'); !more {
			return ok
		}
	}
}

// elements walks over the array at pos.
func (s *scanner) elements(depth int) bool {
	if depth > maxDepth {
		return false
	}
	s.pos++ // [
	if s.next() == ']' {
		s.pos++
		return true
	}
	for {
		if !s.value(depth) {
			return false
		}
		if more, ok := s.separator(']'); !more {
			return ok
		}
	}
}

// separator moves past a comma or the closing bracket.
func (s *scanner) separator(closing byte) (more, ok bool) {
	switch s.next() {
	case ',':
		s.pos++
		return true, true
	case closing:
		s.pos++
		return false, true
	}
	return false, false
}

// text moves past the string at pos.
func (s *scanner) text() bool {
	for i := s.pos + 1; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return true
		case c < ' ':
			s.pos = i
			return false
		case c == '\\':
			n := escapeLen(s.data[i:])
			if n == 0 {
				s.pos = i
				return false
			}
			i += n - 1
		}
	}
	s.pos = len(s.data)
	return false
}

// escapeLen returns the length of the escape sequence at the start of b, 0 if
// it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

// number moves past the number at pos: no leading zeros, digits after a point
// and after an exponent.
func (s *scanner) number() bool {
	if s.at() == '-' {
		s.pos++
	}
	if s.at() == '0' {
		s.pos++
	} else if !s.digits() {
		return false
	}
	if s.at() == '.' {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.at(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return true
}

// digits moves past at least one digit.
func (s *scanner) digits() bool {
	start := s.pos
	for isDigit(s.at()) {
		s.pos++
	}
	return s.pos > start
}

// literal moves past true, false or null.
func (s *scanner) literal(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

// at returns the byte at pos, or 0 at the end.
func (s *scanner) at() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
