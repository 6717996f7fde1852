// Package catalogstore is the contract between package catalogsync and the stores that keep its
// copy of the catalog. Package catalogsync/sqlstore has a [Store] on SQLite and PostgreSQL.
//
// A program reads the copy with [Store].Get and [Store].Changes:
//
//	records, err := store.Changes(ctx, revision, 1000)
//	for _, r := range records {
//		if r.Presence == catalogstore.PresenceGone { … } // else save r.Product
//		revision = r.Revision
//	}
//
// A Store decides nothing about a product by itself. The methods of [Record] return what it is
// after a list, a single read, or a walk that did not see it. [NewListed] and [CheckID] are for
// stores that encode products or test them.
package catalogstore

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
)

// Errors of a [Store]. Others are those of its database, and name what was tried.
var (
	// ErrSyncing: another process, or another part of this one, is syncing the store.
	ErrSyncing = errors.New("catalogstore: another sync of this store is under way")

	// ErrSuperseded: a later walk has begun, so that this one stores nothing any more.
	ErrSuperseded = errors.New("catalogstore: a later walk has begun")

	// ErrNotStored: the store does not have the product.
	ErrNotStored = errors.New("catalogstore: the store does not have the product")
)

// Store keeps a copy of the catalog, and how far it was read. It is safe for concurrent use,
// also by several processes if its database is.
//
// Each method that writes does all of it or nothing. Times are kept to the microsecond, in UTC.
// SaveDetails and Request reject a product id with the error of [CheckID]. The other methods
// treat such an id as that of an unknown product.
type Store interface {
	// Lock makes the caller the only one who reads the platform for the store, until it calls
	// unlock or its process ends, however that ends. The error is [ErrSyncing] while another
	// one holds the lock. The other methods work with and without it.
	Lock(ctx context.Context) (unlock func() error, err error)

	// State returns how far the catalog was read.
	State(ctx context.Context) (State, error)

	// Begin stores the beginning of a walk whose generation is one more than that of the
	// newest walk; [ErrSuperseded] if it is not.
	Begin(ctx context.Context, w Walk) error

	// SavePage stores the products of a page, which have one ReadAt and different ids, as
	// [Record.Listed] says, as seen by the walk, and how far the walk is with them. The walk has
	// to be the newest, and not complete: [ErrSuperseded]. A record that had details and gets another Hash is requested, at the time of
	// its page: its variants may have changed too.
	SavePage(ctx context.Context, w Walk, products []Listed) (Counts, error)

	// Unlisted returns the ids of at most limit missing records that were last seen by a walk
	// before w and last read before w began. The oldest ReadAt is first, then the smallest id.
	Unlisted(ctx context.Context, w Walk, limit int) (ids []string, err error)

	// Complete ends the newest walk, and stores w with the numbers of the records that became
	// missing and gone, and returns it. A present record that the walk has not seen, and whose
	// ReadAt is before its beginning, becomes missing; of those that were missing and that it
	// has not seen, those in gone become gone. [ErrSuperseded] if w is not the newest, or
	// complete.
	Complete(ctx context.Context, w Walk, gone []string) (Walk, error)

	// SaveAttributes replaces the attributes of all products, by the product's id. Those
	// that are not named have none; those that are not stored are left out.
	SaveAttributes(ctx context.Context, attributes map[string]Attributes) error

	// SaveDetails stores a single product as [Record.Detailed] says, says whether that
	// changed the record, and removes the request for it, unless it is younger than readAt.
	SaveDetails(ctx context.Context, readAt time.Time, product catalog.Product) (changed bool, err error)

	// Request asks that products are read one by one, those of which nothing is stored too.
	// A product is requested once, at the latest of the times; one that is requested again at
	// that time or before it is so a microsecond later, so that no one takes it for answered.
	Request(ctx context.Context, at time.Time, ids ...string) error

	// Requested returns at most limit requests, the oldest first.
	Requested(ctx context.Context, limit int) ([]Request, error)

	// Drop removes a request, unless a younger one is there instead of it.
	Drop(ctx context.Context, r Request) error

	// Undetailed returns the ids of at most limit products that are not gone and whose
	// details were never read, in the order of the bytes of ids, from the first that is
	// greater than after.
	Undetailed(ctx context.Context, after string, limit int) (ids []string, err error)

	// Get returns the record of a product: [ErrNotStored] if there is none.
	Get(ctx context.Context, id string) (Record, error)

	// Changes returns at most limit records with a revision greater than after, in the
	// order of revisions. A record is there once, as it is now; those that are gone are
	// there too. After 0 comes the whole catalog. A caller that has seen a revision sees
	// no smaller one later.
	Changes(ctx context.Context, after int64, limit int) ([]Record, error)
}

// State says how far a store is.
type State struct {
	// Newest is the newest walk, Complete the newest that came to its end, zero before there
	// is one. They are the same walk after its end.
	Newest   Walk
	Complete Walk

	// Records counts the records by presence; Detailed is how many of those that are not
	// gone have details.
	Records  map[Presence]int
	Detailed int

	// Requested is how many products are to be read one by one.
	Requested int

	// Revision is the greatest of all records.
	Revision int64
}

// Walk is one reading of the platform's whole list of products.
type Walk struct {
	Generation int64 // from 1
	StartedAt  time.Time

	// Page is the last page that is stored, of so many products at most; 0 before the
	// first. Total is the number of products that it said there are.
	Page     int
	PageSize int
	Total    int

	// Requests is how many requests the walk has made.
	Requests int

	// Skipped is the number of products that the walk could not store, for example because
	// they have no id. If a page is read again, its products count again.
	Skipped int

	// CompletedAt is zero while the walk is under way. Missing and Gone are the numbers
	// of records that became so at its end.
	CompletedAt time.Time
	Missing     int
	Gone        int
}

// Counts says what a page changed. Repeated are products that the walk had seen already.
type Counts struct{ Created, Updated, Unchanged, Repeated int }

// Request is a product that is to be read by itself.
type Request struct {
	ProductID string
	At        time.Time
}
