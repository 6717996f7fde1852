//go:build !unix

package fileid

// Of returns one ID for all paths: Windows does not let anyone move, remove or replace a
// file that SQLite has open.
func Of(string) (ID, error) { return ID{1, 1}, nil }
