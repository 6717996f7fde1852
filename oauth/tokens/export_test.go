package tokens

// Forget drops the token in memory after a test has written to the store itself.
func (s TokenSource) Forget() { s.conns.forget(s.key) }

// LimitCache makes the connections keep the tokens of n users in memory.
func (c *Connections) LimitCache(n int) { c.cache.limit = n }
