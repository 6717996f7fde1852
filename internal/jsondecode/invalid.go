package jsondecode

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/internal/jsonscan"
)

// Invalid is a field or a list element that does not fit. It holds no value but an id.
type Invalid struct {
	// Field is the path in the text: products[3].primary_variant.msrp.
	Field string

	// RecordID is the id of the nearest object around the field that has one: up to 64
	// letters, digits, "-" and "_". It is empty if there is none.
	RecordID string
}

// MaxInvalid is how many [Invalid] one text yields at most.
const MaxInvalid = 100

// locate returns the paths of the values at the positions. It reads data again, so that
// decoding a text without invalid fields costs nothing more.
func locate(data []byte, positions []int) []Invalid {
	if len(positions) == 0 {
		return nil
	}
	l := locator{Scanner: jsonscan.Scanner{Data: data}, positions: positions}
	l.value(nil, 0)
	return l.found
}

// locator finds positions, which are sorted, in a text.
type locator struct {
	jsonscan.Scanner
	positions []int
	found     []Invalid
}

// step is one member or element on the way to a value.
type step struct {
	parent *step
	key    []byte // nil for an element
	index  int
}

func (s *step) path() string {
	switch {
	case s == nil:
		return ""
	case s.key == nil:
		return s.parent.path() + "[" + strconv.Itoa(s.index) + "]"
	}
	return strings.TrimPrefix(s.parent.path()+"."+string(jsonscan.Unquote(s.key)), ".")
}

func (l *locator) value(at *step, depth int) bool {
	if len(l.positions) > 0 && l.positions[0] == l.Pos {
		l.positions = l.positions[1:]
		l.found = append(l.found, Invalid{Field: at.path()})
		return l.Value(depth)
	}
	switch l.Next() {
	case '{':
		return l.object(at, depth+1)
	case '[':
		next := &step{parent: at}
		return l.Elements(depth+1, func() bool {
			defer func() { next.index++ }()
			return l.value(next, depth+1)
		})
	}
	return l.Value(depth)
}

func (l *locator) object(at *step, depth int) bool {
	from, id := len(l.found), ""
	ok := l.Members(depth, func(key []byte) bool {
		found, start := len(l.found), l.Pos
		if !l.value(&step{parent: at, key: key}, depth) {
			return false
		}
		if len(l.found) == found && string(jsonscan.Unquote(key)) == "id" {
			id = idOf(bytes.TrimSpace(l.Data[start:l.Pos]))
		}
		return true
	})
	for i := from; i < len(l.found); i++ {
		if l.found[i].RecordID == "" {
			l.found[i].RecordID = id
		}
	}
	return ok
}

// idOf returns the id that a string or a whole number is. It returns "" for any other value,
// and for a text without the form of an id, which could be anything.
func idOf(raw []byte) string {
	id := raw
	switch c := raw[0]; {
	case c == '"':
		id = jsonscan.Unquote(raw)
	case c < '0' || c > '9':
		return ""
	}
	if len(id) > maxID || bytes.ContainsFunc(id, notInID) {
		return ""
	}
	return string(id)
}

// maxID is the length of the longest text that counts as an id. A UUID has 36.
const maxID = 64

func notInID(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
