package sqlstore

// PostgreSQLSchema and SQLiteSchema are the SQL of the tables. [Open] runs it. You can also
// run it with your own migration tool.
//
// Each walk updates the small row of every product, so the documents have a table of their
// own. A page without changes writes no document. The number of a product is its first
// revision. Products are therefore stored in the order of their first appearance in the list,
// and later walks return them in the same order.
const (
	PostgreSQLSchema = `
CREATE TABLE IF NOT EXISTS dispensary_catalog_schema (
	id      integer PRIMARY KEY,
	version integer NOT NULL,
	oldest  integer NOT NULL
);
CREATE TABLE IF NOT EXISTS dispensary_catalog_products (
	number     bigint NOT NULL PRIMARY KEY,
	id         text   COLLATE "C" NOT NULL UNIQUE,
	revision   bigint NOT NULL UNIQUE,
	presence   text   NOT NULL,
	generation bigint NOT NULL,
	read_at    bigint NOT NULL,
	details_at bigint,
	hash       text   NOT NULL,
	listed     text   NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE IF NOT EXISTS dispensary_catalog_documents (
	number     bigint NOT NULL PRIMARY KEY,
	attributes json,
	document   json   NOT NULL
);
CREATE TABLE IF NOT EXISTS dispensary_catalog_requests (
	product_id   text   COLLATE "C" NOT NULL PRIMARY KEY,
	requested_at bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS dispensary_catalog_requests_oldest ON dispensary_catalog_requests (requested_at, product_id);
CREATE TABLE IF NOT EXISTS dispensary_catalog_state (
	revision bigint NOT NULL,
	newest   text   NOT NULL,
	complete text   NOT NULL
);
INSERT INTO dispensary_catalog_state (revision, newest, complete) SELECT 0, '', '' WHERE NOT EXISTS (SELECT 1 FROM dispensary_catalog_state);
INSERT INTO dispensary_catalog_schema (id, version, oldest) VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET version = excluded.version, oldest = excluded.oldest`

	SQLiteSchema = `
CREATE TABLE IF NOT EXISTS dispensary_catalog_schema (
	id      INTEGER PRIMARY KEY,
	version INTEGER NOT NULL,
	oldest  INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS dispensary_catalog_products (
	number     INTEGER NOT NULL PRIMARY KEY,
	id         TEXT    NOT NULL UNIQUE,
	revision   INTEGER NOT NULL UNIQUE,
	presence   TEXT    NOT NULL,
	generation INTEGER NOT NULL,
	read_at    INTEGER NOT NULL,
	details_at INTEGER,
	hash       TEXT    NOT NULL,
	listed     TEXT    NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS dispensary_catalog_documents (
	number     INTEGER NOT NULL PRIMARY KEY,
	attributes TEXT,
	document   TEXT    NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS dispensary_catalog_requests (
	product_id   TEXT    NOT NULL PRIMARY KEY,
	requested_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dispensary_catalog_requests_oldest ON dispensary_catalog_requests (requested_at, product_id);
CREATE TABLE IF NOT EXISTS dispensary_catalog_state (
	revision INTEGER NOT NULL,
	newest   TEXT    NOT NULL,
	complete TEXT    NOT NULL
) STRICT;
INSERT INTO dispensary_catalog_state (revision, newest, complete) SELECT 0, '', '' WHERE NOT EXISTS (SELECT 1 FROM dispensary_catalog_state);
REPLACE INTO dispensary_catalog_schema (id, version, oldest) VALUES (1, 1, 1)`
)
