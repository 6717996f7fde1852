package tokens

// Forget drops the token in memory after a test has written to the store itself.
func (s TokenSource) Forget() { s.conns.forget(s.key) }
