//go:build !unix

package fileid

// Of returns the same ID for all paths, because Windows does not let any program move, remove
// or replace a file while SQLite has it open.
func Of(string) (ID, error) { return ID{1, 1}, nil }
