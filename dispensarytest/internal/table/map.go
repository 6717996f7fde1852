package table

import (
	"iter"
	"maps"
	"slices"
)

// Map is a map that forks in constant time: the shared entries are in maps that are
// not written any more, the newest last; own has what came since. The zero value means
// that there is no entry for a key.
type Map[K, V comparable] struct {
	shared []map[K]V
	Own    map[K]V
	dirty  bool // written since the last fork
}

// seal moves what is own to the shared layers, and reports whether there was
// anything to do. The copy that is taken afterwards is the fork.
func (l *Map[K, V]) seal() bool {
	if !l.dirty {
		if l.Own != nil { // what is shared is only read
			l.Own = nil // a layer that was made and not written to: both sides would write to it
		}
		return false
	}
	l.dirty = false
	if len(l.Own) == 0 {
		return true
	}
	kept := slices.Clone(l.shared)
	top := l.Own
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
	l.shared, l.Own = append(kept, top), nil
	return true
}

func (l *Map[K, V]) Get(key K) V {
	if value, ok := l.Own[key]; ok {
		return value
	}
	for _, layer := range slices.Backward(l.shared) {
		if value, ok := layer[key]; ok {
			return value
		}
	}
	return *new(V)
}

// Keys yields every key that there is something under.
func (l *Map[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for depth, layer := range append(slices.Clone(l.shared), l.Own) {
			for key, value := range layer {
				hidden := slices.ContainsFunc(l.shared[min(depth+1, len(l.shared)):], func(above map[K]V) bool { _, has := above[key]; return has })
				if _, own := l.Own[key]; hidden || own && depth < len(l.shared) || value == *new(V) {
					continue
				}
				if !yield(key) {
					return
				}
			}
		}
	}
}

func (l *Map[K, V]) Put(key K, value V) {
	if l.Own == nil {
		l.Own = make(map[K]V)
	}
	l.Own[key], l.dirty = value, true
}

// Remove takes away what is under a key.
func (l *Map[K, V]) Remove(key K) {
	delete(l.Own, key)
	if l.dirty = true; l.Get(key) != *new(V) {
		l.Put(key, *new(V)) // hides what is below
	}
}

// Grow makes room for n entries, where that is known.
func (l *Map[K, V]) Grow(n int) {
	if l.Own == nil {
		l.Own = make(map[K]V, n)
	}
}

// Fork returns a map that starts out equal.
func (l *Map[K, V]) Fork() Map[K, V] { l.seal(); return *l }
