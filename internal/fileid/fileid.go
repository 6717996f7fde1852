// Package fileid identifies files. A program that has a file open can detect that the path
// names another file by now.
package fileid

// ID identifies a file for as long as it exists or is open. The zero ID belongs to no file.
type ID struct{ device, inode uint64 }
