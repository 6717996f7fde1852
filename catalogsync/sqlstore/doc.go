// Package sqlstore keeps the copy of the catalog of package catalogsync in a database that
// the program has anyway, PostgreSQL or SQLite, through database/sql. It is a
// [catalogstore.Store] for any number of processes.
//
//	db, err := sqlstore.OpenSQLite(ctx, "sqlite", "catalog.db")
//	store, err := sqlstore.Open(ctx, db)
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5 and
// modernc.org/sqlite.
//
// # Tables
//
// dispensary_catalog_products has a row for each product: its id, revision, presence and hash,
// and when it was read. dispensary_catalog_documents has what the platform says of it, under
// the same number, as a JSON document with the names of the API, so that a query can join both
// with the program's own tables:
//
//	SELECT p.id, d.document ->> 'name' FROM dispensary_catalog_products AS p
//		JOIN dispensary_catalog_documents AS d ON d.number = p.number WHERE p.presence <> 'gone'
//
// The other tables are dispensary_catalog_state, which stores the progress of reading the
// catalog, and dispensary_catalog_requests. [Open] creates the tables.
//
// # Revisions
//
// Every transaction that changes records locks the one row of the state first, and takes its
// revisions from there. So revisions become visible in their order, and a reader who has
// seen one can ask for those after it.
//
// # The lock of a sync
//
// In SQLite it is on a file beside the database, in PostgreSQL it is an advisory lock of a
// connection that is taken from the pool meanwhile. The system and the server free it when
// the process ends, however it ends. A connection that breaks loses it, which is why every
// write of a walk also checks that its walk is the newest.
package sqlstore
