package signal

import "sync"

// Cache keeps what is made of a key permanently: keys have to be few. The zero Cache
// is empty.
type Cache[K comparable, V any] struct{ made sync.Map }

// Get returns what was made of key, or makes it.
func (c *Cache[K, V]) Get(key K, make func(K) V) V {
	if value, ok := c.made.Load(key); ok {
		return value.(V)
	}
	value, _ := c.made.LoadOrStore(key, make(key))
	return value.(V)
}
