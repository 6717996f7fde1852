// Package sqlstore keeps the tokens of package oauth in a database that the
// program has anyway: PostgreSQL, MySQL, MariaDB or SQLite, through database/sql.
// It is a [tokenstore.Store] for any number of replicas.
//
//	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
//	store, err := sqlstore.Open(ctx, db, ring) // the tables hold ciphertexts only
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5,
// github.com/go-sql-driver/mysql and modernc.org/sqlite.
//
// # Tables
//
// dispensary_oauth_tokens has a row for each user of each environment.
// dispensary_oauth_flows has a row for each authorization flow of the last day.
// [Open] creates the tables. [Schema] returns its SQL, for a program that applies it with another
// tool and calls [OpenExisting].
//
// # Leases
//
// One replica at a time refreshes a user's token: the one that has the lease, a
// name and an end in the user's row, taken by a single UPDATE that compares and
// sets. The end is measured by the database's clock. Nothing else is held: no
// transaction, lock or connection outlives the method that needed it, and none
// is open while the platform is called.
//
// # Versions
//
// A row's version is the time of its last write in microseconds by the
// database's clock, or one more than before where the clock has not moved on. So
// versions grow across deletions without a trace of users who are gone. The time is
// that before the write waits for others, of a row that is not there.
//
// # SQLite files
//
// If another program moves, removes or replaces the database or its log (-wal) while the store is
// open, the next start would not find the tokens that are saved from then on. The store
// therefore compares the paths with its open files before and after each statement. At the
// first difference it fails with [api.ErrReplaced], for good. Restart the process. On other Unix
// systems than Linux it does not notice a replaced log, only a removed one.
//
// A database with a second hard link, or one that is mounted alone into a container, fails
// with [api.ErrUnsafePath], because its log would stay behind. Mount the folder.
//
// # Backup and restore
//
// Back up a SQLite file with SQL while the process runs, from any connection to it:
//
//	sqlite3 tokens.db "VACUUM INTO '/backup/tokens.db'"
//
// Do not copy the file: recent commits are only in its log. SQLite creates the backup
// readable for everyone as far as the umask permits, so write it to a private folder.
//
// To restore a backup:
//
//  1. Stop the process.
//  2. Remove tokens.db-wal and tokens.db-shm. They belong to the old database and would
//     corrupt the backup.
//  3. Replace tokens.db with the backup and start the process.
//
// Users whose refresh token was replaced after the backup must authorize again, if the
// platform accepts a refresh token only once.
package sqlstore
