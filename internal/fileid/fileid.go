// Package fileid identifies files, so that a program notices if a path names another file
// than the one that it has open.
package fileid

// ID identifies a file for as long as it exists or is open. The zero ID belongs to no file.
type ID struct{ device, inode uint64 }
