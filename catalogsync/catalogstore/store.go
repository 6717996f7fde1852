// Package catalogstore defines the contract for the stores of package catalogsync, which
// contain its copy of the catalog. Package catalogsync/sqlstore implements [Store] for SQLite
// and PostgreSQL.
//
// Your program reads the copy with [Store].Get and [Store].Changes:
//
//	records, err := store.Changes(ctx, revision, 1000)
//	for _, r := range records {
//		if r.Presence == catalogstore.PresenceGone { … } // else save r.Product
//		revision = r.Revision
//	}
//
// # Implement a store
//
// A Store makes no decision about a product. The methods of [Record] return the new state of a
// record after a list, a single read or a walk without the product. [NewListed] and [CheckID]
// are for encoding products in a store, and for its tests.
package catalogstore

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
)

// Errors of a [Store]. Any other error comes from its database and names the operation.
var (
	// ErrSyncing: another process, or another part of this one, is syncing the store.
	ErrSyncing = errors.New("catalogstore: another sync of this store is in progress")

	// ErrSuperseded: a later walk has begun, so this one can store nothing more.
	ErrSuperseded = errors.New("catalogstore: a later walk has begun")

	// ErrNotStored: the store does not have the product.
	ErrNotStored = errors.New("catalogstore: the store does not have the product")
)

// Store contains a copy of the catalog and the progress of reading it. It is safe for
// concurrent use, also by several processes if its database is.
//
// Each writing method stores either all of its changes or none. Times are stored in UTC, to
// the microsecond. SaveDetails and Request reject a product id with the error of [CheckID].
// The other methods treat such an id as unknown.
type Store interface {
	// Lock reserves the sync of the store for the caller, until it calls unlock or its process
	// ends in any way. It fails with [ErrSyncing] while another caller has the lock. The other
	// methods work with and without the lock.
	Lock(ctx context.Context) (unlock func() error, err error)

	// State returns the progress of reading the catalog.
	State(ctx context.Context) (State, error)

	// Begin stores a new walk. It fails with [ErrSuperseded] unless the generation of w is one
	// more than the generation of the newest walk.
	Begin(ctx context.Context, w Walk) error

	// SavePage stores the products of a page, as [Record.Listed] returns them, marks them as
	// seen by the walk, and stores w as its progress. The products must have the same ReadAt
	// and different ids. A record with details whose Hash changes is also requested, at the
	// time of its page, because its variants may have changed too. SavePage fails with
	// [ErrSuperseded] if w is not the newest walk or is complete.
	SavePage(ctx context.Context, w Walk, products []Listed) (Counts, error)

	// Unlisted returns the ids of up to limit missing records that were last seen by a walk
	// before w and not read since w began: their ReadAt is before its start, or later by more
	// than [MaxRead]. The oldest ReadAt comes first, then the smallest id.
	Unlisted(ctx context.Context, w Walk, limit int) (ids []string, err error)

	// Complete ends the newest walk. It stores and returns w with the numbers of newly missing and
	// gone records. A present record becomes missing if the walk has not seen it, and if it was not
	// read since the start of the walk, as in Unlisted. A missing record becomes gone if the walk
	// has not seen it and gone contains its id. A record that becomes missing now does not become
	// gone. Complete fails with [ErrSuperseded] if w is not the newest walk or is complete.
	Complete(ctx context.Context, w Walk, gone []string) (Walk, error)

	// SaveAttributes replaces the attributes of all products. The keys are product ids. A
	// stored product without a key loses its attributes. SaveAttributes ignores ids of
	// products that are not stored.
	SaveAttributes(ctx context.Context, attributes map[string]Attributes) error

	// SaveDetails stores a single product, as [Record.Detailed] returns it, and reports
	// whether the record changed. It also removes the request for the product, unless the
	// request is younger than readAt.
	SaveDetails(ctx context.Context, readAt time.Time, product catalog.Product) (changed bool, err error)

	// Request adds requests to read single products. The products need not be stored. A
	// product has at most one request, with the latest time. If at is not after the time of an
	// existing request, the request moves one microsecond later, so that a read in progress
	// does not answer it.
	Request(ctx context.Context, at time.Time, ids ...string) error

	// Requested returns up to limit requests, oldest first.
	Requested(ctx context.Context, limit int) ([]Request, error)

	// Drop removes a request, unless a younger request has replaced it.
	Drop(ctx context.Context, r Request) error

	// Undetailed returns the ids of up to limit products that are not gone and whose details
	// were never read. It returns ids greater than after, in byte order.
	Undetailed(ctx context.Context, after string, limit int) (ids []string, err error)

	// Get returns the record of a product. It fails with [ErrNotStored] if there is none.
	Get(ctx context.Context, id string) (Record, error)

	// Changes returns up to limit records with a revision greater than after, in the order of
	// revisions. It returns each record once, in its current state, including gone records. If
	// after is 0, Changes begins with the whole catalog. If a caller has seen a revision, no
	// smaller one appears later.
	Changes(ctx context.Context, after int64, limit int) ([]Record, error)
}

// State is the progress of a store.
type State struct {
	// Newest is the newest walk, and Complete is the newest complete walk. Both are zero
	// before there is one. They are equal after the newest walk is complete.
	Newest   Walk
	Complete Walk

	// Records counts the records by presence. Detailed counts those with details, except gone
	// records.
	Records  map[Presence]int
	Detailed int

	// Requested is the number of requests to read single products.
	Requested int

	// Revision is the greatest revision of all records.
	Revision int64
}

// Walk is one read of the platform's whole list of products.
type Walk struct {
	Generation int64 // from 1
	StartedAt  time.Time

	// Page is the number of the last stored page, and 0 before the first one. PageSize is the
	// maximum number of products on a page. Total is the length of the list, as stated on that
	// page.
	Page     int
	PageSize int
	Total    int

	// Requests is the number of requests made by the walk.
	Requests int

	// Skipped is the number of products that the walk could not store, for example because
	// they have no id. If a page is read again, its products count again.
	Skipped int

	// CompletedAt is zero while the walk is in progress. Missing and Gone are the numbers of
	// records that became missing and gone at its end.
	CompletedAt time.Time
	Missing     int
	Gone        int
}

// Counts is the number of products created, updated and left unchanged by a page. Repeated is
// the number of products already seen by the walk.
type Counts struct{ Created, Updated, Unchanged, Repeated int }

// Request is a request to read a single product.
type Request struct {
	ProductID string
	At        time.Time
}
