package jsondecode

import (
	"bytes"
	"strconv"
	"strings"
)

// Invalid is a field or a list element that does not fit. It contains no value except an id.
type Invalid struct {
	// Field is the path in the text: products[3].primary_variant.msrp.
	Field string

	// RecordID is the id of the nearest enclosing object with an id: up to 64 letters, digits,
	// "-" and "_". It is empty if there is none.
	RecordID string
}

// MaxInvalid is the maximum number of [Invalid] values for one text.
const MaxInvalid = 100

// locate returns the paths of the values at positions. It reads data again, so texts without
// invalid fields have no extra cost.
func locate(data []byte, positions []int) []Invalid {
	if len(positions) == 0 {
		return nil
	}
	l := locator{Scanner: Scanner{Data: data}, positions: positions}
	l.value(nil, 0)
	return l.found
}

// locator finds sorted positions in a text.
type locator struct {
	Scanner
	positions []int
	found     []Invalid
}

// step is a member or an element on the path to a value.
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
	return strings.TrimPrefix(s.parent.path()+"."+string(Unquote(s.key)), ".")
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
		if len(l.found) == found && string(Unquote(key)) == "id" {
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

// idOf returns the id in raw, which must be a string or a whole number. It returns "" for any
// other value, and for a string without the form of an id, because it could contain anything.
func idOf(raw []byte) string {
	id := raw
	switch c := raw[0]; {
	case c == '"':
		id = Unquote(raw)
	case c < '0' || c > '9':
		return ""
	}
	if len(id) > maxID || bytes.ContainsFunc(id, notInID) {
		return ""
	}
	return string(id)
}

// maxID is the maximum length of an id. A UUID has 36 characters.
const maxID = 64

func notInID(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
