package dispensarytest

import (
	"iter"
	"maps"
	"slices"
)

// layers is a map that forks in no time: what two sides share is in maps that
// nobody writes any more, the newest last; own is what came since. The zero value
// says that there is nothing under a key.
type layers[K, V comparable] struct {
	shared []map[K]V
	own    map[K]V
	dirty  bool // written since the last fork
}

// seal moves what is own to the shared layers, and reports whether there was
// anything to do. The copy that is taken afterwards is the fork.
func (l *layers[K, V]) seal() bool {
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
	if len(kept) == 0 { // there is nothing below that a zero value would hide
		maps.DeleteFunc(top, func(_ K, value V) bool { return value == *new(V) })
	}
	l.shared, l.own = append(kept, top), nil
	return true
}

func (l *layers[K, V]) get(key K) V {
	if value, ok := l.own[key]; ok {
		return value
	}
	for _, layer := range slices.Backward(l.shared) {
		if value, ok := layer[key]; ok {
			return value
		}
	}
	return *new(V)
}

// keys yields every key that there is something under.
func (l *layers[K, V]) keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for depth, layer := range append(slices.Clone(l.shared), l.own) {
			for key, value := range layer {
				hidden := slices.ContainsFunc(l.shared[min(depth+1, len(l.shared)):], func(above map[K]V) bool { _, has := above[key]; return has })
				if _, own := l.own[key]; hidden || own && depth < len(l.shared) || value == *new(V) {
					continue
				}
				if !yield(key) {
					return
				}
			}
		}
	}
}

func (l *layers[K, V]) put(key K, value V) {
	if l.own == nil {
		l.own = make(map[K]V)
	}
	l.own[key], l.dirty = value, true
}

// remove takes away what is under a key.
func (l *layers[K, V]) remove(key K) {
	delete(l.own, key)
	if l.dirty = true; l.get(key) != *new(V) {
		l.put(key, *new(V)) // hides what is below
	}
}

// grow makes room for n entries, where that is known.
func (l *layers[K, V]) grow(n int) {
	if l.own == nil {
		l.own = make(map[K]V, n)
	}
}

// fork returns a map that starts out equal.
func (l *layers[K, V]) fork() layers[K, V] { l.seal(); return *l }
