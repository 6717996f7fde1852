//go:build !linux

package sqlitefile

// Owner is a lock on the database itself.
type Owner struct{}

// Own locks nothing on this system.
func Own(string, func() bool) (*Owner, error) { return &Owner{}, nil }

// Release does nothing.
func (*Owner) Release() error { return nil }
