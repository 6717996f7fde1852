package dispensarytest

import (
	"maps"
	"slices"
)

// layers is a map that forks in no time: what two sides share is in maps that
// nobody writes any more, the newest last; own is what came since.
type layers[V any] struct {
	shared []map[string]V
	own    map[string]V
	dirty  bool // written since the last fork
}

// seal moves what is own to the shared layers, and reports whether there was
// anything to do. The copy that is taken afterwards is the fork.
func (l *layers[V]) seal() bool {
	if !l.dirty {
		if l.own != nil { // what is shared is only read
			l.own = nil // a layer that was made and not written to: both sides would write to it
		}
		return false
	}
	l.dirty = false
	if len(l.own) == 0 {
		return true
	}
	kept := slices.Clone(l.shared)
	top := l.own
	// Layers of about one size become one, so that there are never many of them,
	// and a big one is not copied for the sake of a few entries.
	for n := len(kept); n > 0 && len(kept[n-1]) <= len(top); n-- {
		merged := maps.Clone(kept[n-1])
		maps.Copy(merged, top)
		top, kept = merged, kept[:n-1]
	}
	l.shared, l.own = append(kept, top), nil
	return true
}

func (l *layers[V]) get(key string) (V, bool) {
	if value, ok := l.own[key]; ok {
		return value, true
	}
	for _, layer := range slices.Backward(l.shared) {
		if value, ok := layer[key]; ok {
			return value, true
		}
	}
	return *new(V), false
}

func (l *layers[V]) put(key string, value V) {
	if l.own == nil {
		l.own = make(map[string]V)
	}
	l.own[key], l.dirty = value, true
}

// grow makes room for n entries, where that is known.
func (l *layers[V]) grow(n int) {
	if l.own == nil {
		l.own = make(map[string]V, n)
	}
}

// lookup maps a secondary key, such as an e-mail address, to a row's id. An empty
// id hides one of a layer below.
type lookup struct{ layers[string] }

func (l *lookup) fork() lookup { l.seal(); return *l }

func (l *lookup) get(key string) string {
	id, _ := l.layers.get(key)
	return id
}

// index maps a key to the ids of all rows that have it, in the order they got it.
type index struct{ layers[[]string] }

func (x *index) fork() index { x.seal(); return *x }

func (x *index) get(key string) []string {
	ids, _ := x.layers.get(key)
	return ids
}

// add puts an id under a key. Lists are never written in place once they are
// shared: the capacity is cut off.
func (x *index) add(key, id string) {
	if key == "" {
		return
	}
	if ids, ours := x.own[key]; ours {
		x.put(key, append(ids, id))
		return
	}
	x.put(key, append(slices.Clip(x.get(key)), id))
}

// remove takes an id from under a key.
func (x *index) remove(key, id string) {
	if key != "" {
		x.put(key, slices.DeleteFunc(slices.Clone(x.get(key)), func(other string) bool { return other == id }))
	}
}

// move is what a change of the key does.
func (x *index) move(from, to, id string) {
	if from != to {
		x.remove(from, id)
		x.add(to, id)
	}
}
