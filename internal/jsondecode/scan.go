package jsondecode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is the maximum nesting of arrays and objects. encoding/json, which reads the data
// later, has the same limit.
const maxDepth = 10_000

// Scanner reads JSON text without building values. It is for the few places that skip most of a text,
// or that know its shape and would pay several times as much for decoding.
//
// It reads Data once and checks its whole grammar as encoding/json does. If the text is
// not JSON, its methods return false and leave Pos there.
type Scanner struct {
	Data []byte
	Pos  int

	plain bool // the last string read by Text is ASCII without escapes
}

// Next skips white space and returns the byte after it, or 0 at the end.
func (s *Scanner) Next() byte {
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; c {
		case ' ', '\t', '\n', '\r':
			s.Pos++
		default:
			return c
		}
	}
	return 0
}

// End reports whether only white space is left.
func (s *Scanner) End() bool {
	s.Next()
	return s.Pos == len(s.Data)
}

// Value skips one value of any kind. depth is the number of arrays and objects around it.
func (s *Scanner) Value(depth int) bool {
	switch c := s.Next(); {
	case c == '"':
		return s.Text()
	case c == '{':
		return s.Members(depth+1, nil)
	case c == '[':
		return s.Elements(depth+1, nil)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.Skip("true")
	case c == 'f':
		return s.Skip("false")
	case c == 'n':
		return s.Skip("null")
	}
	return false
}

// Members reads the object at Pos. For each member it calls visit with the quoted key, and
// with Pos before the value. visit must move past the value. A nil visit skips all values.
func (s *Scanner) Members(depth int, visit func(key []byte) bool) bool {
	more, ok := s.Open('}', depth)
	for more {
		var key []byte
		if key, ok = s.Key(); !ok {
			return false
		}
		if visit == nil && !s.Value(depth) || visit != nil && !visit(key) {
			return false
		}
		more, ok = s.More('}')
	}
	return ok
}

// Elements reads the array at Pos. It calls visit with Pos before each element. visit must
// move past the element. A nil visit skips all elements.
func (s *Scanner) Elements(depth int, visit func() bool) bool {
	more, ok := s.Open(']', depth)
	for more {
		if visit == nil && !s.Value(depth) || visit != nil && !visit() {
			return false
		}
		more, ok = s.More(']')
	}
	return ok
}

// Open moves past the opening bracket at Pos. It also moves past the closing bracket if the
// object or array is empty. more reports whether a member or element follows.
func (s *Scanner) Open(closing byte, depth int) (more, ok bool) {
	if depth > maxDepth {
		return false, false
	}
	s.Pos++
	if s.Next() == closing {
		s.Pos++
		return false, true
	}
	return true, true
}

// More moves past a comma or the closing bracket. more reports whether another member or
// element follows.
func (s *Scanner) More(closing byte) (more, ok bool) {
	switch s.Next() {
	case ',':
		s.Pos++
		return true, true
	case closing:
		s.Pos++
		return false, true
	}
	return false, false
}

// Key moves past the key of a member and the colon. It returns the key with its quotes.
func (s *Scanner) Key() (key []byte, ok bool) {
	if s.Next() != '"' {
		return nil, false
	}
	start := s.Pos
	if !s.Text() {
		return nil, false
	}
	key = s.Data[start:s.Pos]
	if s.Next() != ':' {
		return nil, false
	}
	s.Pos++
	return key, true
}

// Skip skips white space and moves past text if text is next.
func (s *Scanner) Skip(text string) bool {
	s.Next()
	if len(s.Data)-s.Pos < len(text) || string(s.Data[s.Pos:s.Pos+len(text)]) != text {
		return false
	}
	s.Pos += len(text)
	return true
}

// Text moves past the string at Pos.
func (s *Scanner) Text() bool {
	s.plain = true
	for i := s.Pos + 1; i < len(s.Data); i++ {
		next, all := skipPlain(s.Data, i)
		if all&high != 0 {
			s.plain = false
		}
		if i = next; i == len(s.Data) {
			break
		}
		switch c := s.Data[i]; {
		case c == '"':
			s.Pos = i + 1
			return true
		case c >= utf8.RuneSelf:
			s.plain = false
		case c < ' ':
			s.Pos = i
			return false
		case c == '\\':
			n := escapeLen(s.Data[i:])
			if n == 0 {
				s.Pos = i
				return false
			}
			s.plain = false
			i += n - 1
		}
	}
	s.Pos = len(s.Data)
	return false
}

// Each constant repeats one byte eight times, for comparing eight bytes at once.
const (
	low   = 0x0101010101010101
	high  = 0x8080808080808080
	quote = low * '"'
	slash = low * '\\'
	space = low * ' '
)

// skipPlain returns the position of the first special byte of a string from i on: a quote, a
// backslash or a control character. It reads eight bytes at a time. all is the union of their
// bits, and can include bytes after the string.
func skipPlain(data []byte, i int) (next int, all uint64) {
	for ; i+8 <= len(data); i += 8 {
		w := binary.LittleEndian.Uint64(data[i:])
		all |= w
		q, b := w^quote, w^slash
		// The high bit of a byte is set if it is special. Bytes above 0x7f can be reported by
		// mistake, so the caller checks them one by one.
		if special := ((q - low) &^ q) | ((b - low) &^ b) | ((w - space) &^ w); special&high != 0 {
			return i + bits.TrailingZeros64(special&high)/8, all
		}
	}
	return i, all
}

// escapeLen returns the length of the escape sequence at the start of b, or 0 if there is
// none.
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

// number moves past the number at Pos. It rejects leading zeros, and requires digits after a
// point and in an exponent.
func (s *Scanner) number() bool {
	if s.at() == '-' {
		s.Pos++
	}
	if s.at() == '0' {
		s.Pos++
	} else if !s.digits() {
		return false
	}
	if s.at() == '.' {
		s.Pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		s.Pos++
		if c := s.at(); c == '+' || c == '-' {
			s.Pos++
		}
		return s.digits()
	}
	return true
}

// digits moves past at least one digit.
func (s *Scanner) digits() bool {
	start := s.Pos
	for isDigit(s.at()) {
		s.Pos++
	}
	return s.Pos > start
}

// at returns the byte at Pos, or 0 at the end.
func (s *Scanner) at() byte {
	if s.Pos < len(s.Data) {
		return s.Data[s.Pos]
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// Unquoted returns the content of the last string that Text read, which begins at start. See
// [Unquote].
func (s *Scanner) Unquoted(start int) []byte {
	raw := s.Data[start:s.Pos]
	if s.plain {
		return raw[1 : len(raw)-1]
	}
	return Unquote(raw)
}

// Unquote returns the content of a JSON string. It returns the bytes of raw themselves unless
// they contain escapes or are not UTF-8. A Scanner or a decoder must have checked the string.
func Unquote(raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	if isPlain(inner) || bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return inner
	}
	var s string
	_ = json.Unmarshal(raw, &s) // cannot fail: raw is a string
	return []byte(s)
}

// isPlain reports whether text is ASCII without a backslash. It reads eight bytes at a time.
func isPlain(text []byte) bool {
	for ; len(text) >= 8; text = text[8:] {
		w := binary.LittleEndian.Uint64(text)
		b := w ^ slash
		if (w|(b-low)&^b)&high != 0 {
			return false
		}
	}
	for _, c := range text {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
