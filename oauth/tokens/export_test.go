package tokens

// Forget drops the token in memory after a test has written to the store directly.
func (s TokenSource) Forget() { s.conns.users.forget(s.key) }

// LimitCache sets the number of users with tokens in memory.
func (c *Connections) LimitCache(n int) { c.users.limit = n }
