// Package sqlstore stores the tokens of package oauth in PostgreSQL, MySQL, MariaDB or SQLite,
// through database/sql. Its [tokenstore.Store] serves any number of replicas.
//
//	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
//	store, err := sqlstore.Open(ctx, db, ring) // the tables contain only ciphertexts
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5,
// github.com/go-sql-driver/mysql and modernc.org/sqlite.
//
// # Tables
//
// dispensary_oauth_tokens has a row for each user of each environment. dispensary_oauth_flows
// has a row for each authorization flow of the last day. [Open] creates the tables. If you
// create them with another tool, use the SQL of [Schema] and call [OpenExisting].
//
// # Leases
//
// Only the replica with the lease refreshes a user's token. A lease is an owner and an expiry
// in the user's row, and a single UPDATE compares and sets both. The database's clock measures
// the expiry. No transaction, lock or connection outlives the method that needs it, so none is
// open during a call of the platform.
//
// # Versions
//
// A row's version is the time of its last write in microseconds, by the database's clock. If
// that clock has not advanced, the version is the previous one plus 1. So versions grow even
// across deletions, without a trace of deleted users. For a new row, the time is read before
// the write waits for other transactions.
//
// # SQLite files
//
// If another program moves, removes or replaces the database or its log (-wal) while the store
// is open, later tokens would be missing after a restart. The store therefore compares the
// paths with its open files before and after each statement. After the first difference every
// call fails with [api.ErrReplaced]. Restart the process. On Unix systems other than Linux,
// the store detects a removed log, but not a replaced one.
//
// A database with a second hard link fails with [api.ErrUnsafePath], because its log would
// stay behind. So does a database file that is mounted into a container on its own. Mount the
// folder instead.
//
// # Backup and restore
//
// Back up a SQLite file with SQL while the process runs, from any connection to it:
//
//	sqlite3 tokens.db "VACUUM INTO '/backup/tokens.db'"
//
// Do not copy the file: recent commits are only in its log. SQLite creates the backup with the
// permissions that the umask allows, often readable for everyone. Write it to a private
// folder.
//
// To restore a backup:
//
//  1. Stop the process.
//  2. Remove tokens.db-wal and tokens.db-shm. They belong to the old database and would
//     corrupt the backup.
//  3. Replace tokens.db with the backup and start the process.
//
// If the platform accepts a refresh token only once, users whose token was refreshed after the
// backup must authorize again.
package sqlstore
