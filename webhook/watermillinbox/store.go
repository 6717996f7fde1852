package watermillinbox

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Store is what an [Inbox] keeps everything in, as no broker keeps anything: a
// key-value store whose entries are written by comparing and setting. Packages
// sqlkv and natskv are two; package kvtest holds any other to what is said here.
//
// Keys consist of letters, digits, '-', '_' and '.', are told apart by upper and
// lower case, and are 200 bytes long at most. Values are a few hundred bytes, but
// for those that hold the body of an event.
//
// A write that has returned without an error has to survive whatever the inbox is
// to survive. Reads should see what was written before; an inbox whose store
// reads late is slower, and not wrong. Errors must not repeat values.
type Store interface {
	// Create stores the entries whose keys do not exist, one after the other:
	// no crash leaves a later one without those before it. It returns the
	// revisions of all. If any existed, it has left that as it was, and the
	// error is [ErrExists]; the others are stored all the same. Revision of
	// what it is given is not looked at.
	Create(ctx context.Context, entries ...Entry) (revisions []uint64, err error)

	// Get returns the entries of those keys that exist, in any order.
	Get(ctx context.Context, keys ...string) (map[string]Entry, error)

	// Update replaces an entry and returns its new revision, which no entry of
	// this key ever had before, deleted ones included. If the entry does not have
	// Revision any more, nothing is changed, and the error is [ErrConflict].
	Update(ctx context.Context, entry Entry) (revision uint64, err error)

	// Delete deletes those of the entries that still have their Revision, and
	// leaves the others as they are. If there were others, or entries that were
	// not there, the error is [ErrConflict].
	Delete(ctx context.Context, entries ...Entry) error

	// List returns the keys that begin with prefix, which ends with a period, in
	// order of their bytes. It ends with the first error. Keys that begin with
	// [Kept] are not listed.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Purge deletes the entries that are Past and were written before a time.
	Purge(ctx context.Context, before time.Time) error

	// Now returns the time by the clock of the storage, which all processes
	// share.
	Now(ctx context.Context) (time.Time, error)
}

// Kept begins the keys of entries that are many, stay for long and are never
// listed, so that a store can keep them where they are in nobody's way.
const Kept = "kept."

// Entry is what a [Store] holds under a key.
type Entry struct {
	Key   string
	Value []byte

	// Revision changes with every write; never 0.
	Revision uint64

	// Past marks an entry that Purge deletes when it is old enough. Stores need
	// not return it.
	Past bool
}

// What a [Store] answers where somebody else was faster.
var (
	// ErrExists: there is an entry with this key.
	ErrExists = errors.New("watermillinbox: key exists")

	// ErrConflict: the entry was changed or deleted since it was read.
	ErrConflict = errors.New("watermillinbox: entry has changed")
)
