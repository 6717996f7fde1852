// Package sqlstore stores the copy of the catalog of package catalogsync in PostgreSQL or
// SQLite, through database/sql. Its [Store] implements [catalogstore.Store] for any number of
// processes.
//
//	db, err := sqlstore.OpenSQLite(ctx, "sqlite", "catalog.db")
//	store, err := sqlstore.Open(ctx, db)
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5 and
// modernc.org/sqlite.
//
// # Tables
//
// [Open] creates the tables. dispensary_catalog_products has one row for each product: its id,
// revision, presence, hash and read times. dispensary_catalog_documents has its content under
// the same number, as a JSON document with the field names of the API. Your queries can join
// both with your own tables:
//
//	SELECT p.id, d.document ->> 'name' FROM dispensary_catalog_products AS p
//		JOIN dispensary_catalog_documents AS d ON d.number = p.number WHERE p.presence <> 'gone'
//
// The other tables store the progress of reading the catalog (dispensary_catalog_state) and
// the requests to read single products (dispensary_catalog_requests).
//
// # Revisions
//
// Every transaction that changes records first locks the only row of dispensary_catalog_state
// and takes its revisions from there. Revisions therefore become visible in order. If a reader
// has seen a revision, it can continue with the next one.
//
// # The lock of a sync
//
// In SQLite the lock is on a file beside the database. In PostgreSQL it is an advisory lock of
// a connection, which stays out of the pool during the sync. The operating system or the
// server releases the lock when the process ends in any way. If its connection breaks, the
// lock is lost. Every write of a walk therefore also checks that its walk is the newest.
package sqlstore
