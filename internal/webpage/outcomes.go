package webpage

import (
	"crypto/rand"
	"sync"
)

// Outcomes stores the results of the last 64 forms in this process. The page after a form shows
// the result by the name in its URL, so a reload does not send the form again, and a link cannot
// report a change that did not happen. The zero value is ready to use. It is safe for concurrent
// use.
type Outcomes[T any] struct {
	mu    sync.Mutex
	n     int // number of all outcomes so far
	names [64]string
	last  [64]T
}

// Keep stores a result and returns its name for a URL. Nobody can guess the name.
func (o *Outcomes[T]) Keep(result T) (name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name = rand.Text()
	o.names[o.n%len(o.names)], o.last[o.n%len(o.last)] = name, result
	o.n++
	return name
}

// Find returns a result by its name. It returns nil if the name is unknown or no longer stored.
func (o *Outcomes[T]) Find(name string) *T {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, known := range o.names {
		if name != "" && known == name {
			result := o.last[n]
			return &result
		}
	}
	return nil
}
