package console

import (
	"strconv"
	"sync"
)

// button does something at once, and comes back to the page it is on.
type button struct {
	Base, ID string // where the form goes
	Return   string // the room to come back to
	Label    string
	Of       string // whom or what it is about, for those who hear the label alone
	Fields   []field
}

type field struct{ Name, Value string }

// press makes a button of a page that runs an operation with some of its fields
// filled in.
func press(f *frame, id, label, of string, fields ...string) button {
	b := button{Base: f.Base, ID: id, Return: f.Path, Label: label, Of: of}
	for i := 0; i+1 < len(fields); i += 2 {
		b.Fields = append(b.Fields, field{fields[i], fields[i+1]})
	}
	return b
}

// outcomes remembers what was done last, so that the page that a button comes back
// to can show it, and reloading that does nothing twice.
type outcomes struct {
	mu   sync.Mutex
	n    int // how many there were
	last [64]actionView
}

// keep returns the name of an outcome in an address.
func (o *outcomes) keep(v actionView) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.last[o.n%len(o.last)] = v
	return strconv.Itoa(o.n)
}

// find returns nil for what was never done, or is forgotten.
func (o *outcomes) find(name string) *actionView {
	n, err := strconv.Atoi(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || n < 1 || n > o.n || n <= o.n-len(o.last) {
		return nil
	}
	v := o.last[n%len(o.last)]
	return &v
}
