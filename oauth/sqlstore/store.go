package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqldb"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// store is a [tokenstore.Store] in the tables of [Schema]. [tokenstore.Sealed] always wraps
// it.
type store struct {
	database
	sql   statements
	flows flowStatements
}

// database runs statements.
type database struct {
	pool    pool
	dialect dialect

	// writing serializes the writers of this process for SQLite, which has one writer at a
	// time. A wait for this channel is fair and cheap. Waiting in the driver leaves the order
	// to chance. Nil for other databases.
	writing chan struct{}
}

// pool runs statements on one connection of a pool.
type pool interface {
	Do(ctx context.Context, run func(*sql.Conn) error) error
}

var _ tokenstore.Store = (*store)(nil)

// Open returns a store in db, which the caller still closes. It detects the database, creates or
// migrates the tables, and encrypts tokens with aead, such as a [seal.KeyRing]. See
// [tokenstore.Sealed]. Use one store per database and share it.
//
// If the tables have the version of this release, Open only reads. A role without the right to create tables can
// therefore call it at every start. Replicas may call it at the same time.
//
// Errors:
//
//   - [*api.ArgumentError]: db or aead is nil, or the package does not support the database
//   - [*api.SchemaError]: another program created a table, or a newer release no longer
//     admits this one
//   - errors of the database
func Open(ctx context.Context, db *sql.DB, aead seal.AEAD) (tokenstore.Store, error) {
	return open(ctx, db, aead, func(schema sqldb.Schema) error { return schema.Create(ctx, db) })
}

// OpenExisting is [Open] for tables that another tool has created. If they are missing or older
// than this release, it fails with a [*api.SchemaError]. It changes nothing.
func OpenExisting(ctx context.Context, db *sql.DB, aead seal.AEAD) (tokenstore.Store, error) {
	return open(ctx, db, aead, func(schema sqldb.Schema) error { return schema.Check(ctx, db) })
}

func open(ctx context.Context, db *sql.DB, aead seal.AEAD, prepare func(sqldb.Schema) error) (tokenstore.Store, error) {
	if db == nil || aead == nil {
		return nil, &api.ArgumentError{Field: "sqlstore.Open", Reason: "needs a database and an AEAD"}
	}
	d, err := detect(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := prepare(d.schema()); err != nil {
		return nil, failed(ctx, "prepare the tables", err)
	}
	return tokenstore.Sealed(newStore(db, d), aead)
}

func newStore(db *sql.DB, d dialect) *store {
	s := &store{database: database{pool: sqldb.NewPool(db), dialect: d}, sql: newStatements(d), flows: newFlowStatements(d)}
	if d == sqlite {
		s.pool, s.writing = sqlitefile.NewPool(db), make(chan struct{}, 1)
	}
	return s
}

// Load implements [tokenstore.Store].
func (s *store) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	return s.row(ctx, "load", key, s.sql.load, keyValues(key))
}

// Save implements [tokenstore.Store].
func (s *store) Save(ctx context.Context, key tokenstore.Key, token oauth.Token) (tokenstore.Record, error) {
	v, err := s.accept(ctx, key, token)
	if err != nil {
		return tokenstore.Record{}, err
	}
	version, err := s.write(ctx, "save", s.sql.save, v)
	if err != nil {
		return tokenstore.Record{}, err
	}
	return wrote(key, token, version), nil
}

// SaveVersion implements [tokenstore.Store].
func (s *store) SaveVersion(ctx context.Context, key tokenstore.Key, version int64, token oauth.Token) (tokenstore.Record, error) {
	v, err := s.accept(ctx, key, token)
	if err != nil {
		return tokenstore.Record{}, err
	}
	query := s.sql.saveNew
	if version != 0 {
		v["version"], query = version, s.sql.saveVersion
	}
	written, err := s.write(ctx, "save", query, v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tokenstore.Record{}, tokenstore.ErrConflict
	case err != nil:
		return tokenstore.Record{}, err
	}
	return wrote(key, token, written), nil
}

// DeleteVersion implements [tokenstore.Store].
func (s *store) DeleteVersion(ctx context.Context, key tokenstore.Key, version int64) error {
	v := keyValues(key)
	v["version"] = version
	deleted, err := s.change(ctx, "delete", key, s.sql.forgetVersion, v)
	if err != nil || deleted > 0 {
		return err
	}
	if err := s.conflict(ctx, "delete", key); !errors.Is(err, tokenstore.ErrNoRecord) {
		return err
	}
	return nil
}

// CheckWrite implements [tokenstore.Store]. It inserts and deletes a row of the token table in one
// transaction, without an environment and a token. The row has a random user, so processes never
// wait for each other: they would check one shared row in turn, each for the time of a commit.
func (s *store) CheckWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := columnsOf(tokenstore.Key{User: rand.Text()}, oauth.Token{})
	if err != nil {
		return err
	}
	v["environment"] = "" // no other method reads a row without an environment
	return s.retry(ctx, "check write", s.sql.checkInsert, func(conn *sql.Conn) error {
		return transact(ctx, conn, sql.LevelDefault, func(tx *sql.Tx) error {
			for _, query := range []statement{s.sql.checkInsert, s.sql.checkDelete} {
				if _, err := tx.ExecContext(ctx, query.text, query.args(v)...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// accept validates a token and returns its columns.
func (s *store) accept(ctx context.Context, key tokenstore.Key, token oauth.Token) (values, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case key.ValidateToken(token) != nil:
		return nil, key.ValidateToken(token)
	}
	return columnsOf(key, token)
}

// wrote returns the record after a write of token.
func wrote(key tokenstore.Key, token oauth.Token, version int64) tokenstore.Record {
	return tokenstore.Record{
		Key: key, Token: token, Version: version, State: tokenstore.StateActive, UpdatedAt: time.UnixMicro(version).UTC(),
	}
}

// row runs a statement that returns the record of key, or no row. It does not query an invalid
// key: some databases compare such a key as equal to another one, and some fail.
func (d *database) row(ctx context.Context, op string, key tokenstore.Key, query statement, v values) (record tokenstore.Record, err error) {
	if err := ctx.Err(); err != nil {
		return tokenstore.Record{}, err
	}
	if key.Validate() != nil {
		return tokenstore.Record{}, tokenstore.ErrNoRecord
	}
	err = d.retry(ctx, op, query, func(conn *sql.Conn) error {
		return one(ctx, conn, query, v, func(row scanner) (err error) {
			record, err = scan(row, key.Environment)
			return err
		})
	})
	if errors.Is(err, sql.ErrNoRows) {
		return tokenstore.Record{}, tokenstore.ErrNoRecord
	}
	if err != nil {
		return tokenstore.Record{}, err
	}
	return record, nil
}

// write runs a statement that writes a row, and returns the new version. If no row meets the
// statement's conditions, it returns [sql.ErrNoRows]. MySQL shows this in the last inserted
// ID, because the statements of [newStatements] set it to the version of each row they find.
// The count of affected rows is not enough: it depends on the connection (clientFoundRows). If
// it counts only changed rows, it is 0 when an owner extends its lease and the clock has not
// advanced.
func (d *database) write(ctx context.Context, op string, query statement, v values) (version int64, err error) {
	err = d.retry(ctx, op, query, func(conn *sql.Conn) error {
		if d.dialect != mySQL {
			return one(ctx, conn, query, v, func(row scanner) error { return row.Scan(&version) })
		}
		result, err := conn.ExecContext(ctx, query.text, query.args(v)...)
		if err != nil {
			return err
		}
		if version, err = result.LastInsertId(); err == nil && version == 0 {
			return sql.ErrNoRows
		}
		if query.ignores() && err == nil {
			var inserted int64
			if inserted, err = result.RowsAffected(); err == nil && inserted == 0 {
				return sql.ErrNoRows
			}
		}
		return err
	})
	return version, err
}

// change runs a statement that returns no rows, and returns the number of changed rows. If an
// UPDATE finds a row with the new values already set, the number is 0 or 1, depending on the
// database.
func (d *database) change(ctx context.Context, op string, key tokenstore.Key, query statement, v values) (changed int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if key.Validate() != nil {
		return 0, nil
	}
	err = d.retry(ctx, op, query, func(conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, query.text, query.args(v)...)
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	return changed, err
}

// one reads the single row of a statement, or returns [sql.ErrNoRows]. It reads to the end of
// the result, because a write is durable only after its statement has finished.
func one(ctx context.Context, conn *sql.Conn, query statement, v values, read func(scanner) error) error {
	none := sql.ErrNoRows
	err := each(ctx, conn, query, v, func(row scanner) error {
		none = nil
		return read(row)
	})
	return cmp.Or(err, none)
}

// each calls read for all rows of a statement.
func each(ctx context.Context, q rowser, query statement, v values, read func(scanner) error) (err error) {
	rows, err := q.QueryContext(ctx, query.text, query.args(v)...)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, rows.Close()) }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// transact calls run in a transaction, and commits it if run succeeds.
func transact(ctx context.Context, conn *sql.Conn, isolation sql.IsolationLevel, run func(*sql.Tx) error) (err error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return err
	}
	defer func() {
		if undo := tx.Rollback(); err != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
	}()
	if err := run(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// rowser is a connection or a transaction.
type rowser interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// retry runs one statement on one connection. It runs the statement again if the database
// aborted it because of other transactions, or if the connection's server is read-only.
func (d *database) retry(ctx context.Context, op string, query statement, run func(*sql.Conn) error) error {
	if d.writing != nil && query.writes() {
		select {
		case d.writing <- struct{}{}:
			defer func() { <-d.writing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := sqldb.Retry(ctx, func() error { return d.pool.Do(ctx, run) })
	if err != nil {
		return failed(ctx, op, err)
	}
	return nil
}

// failed adds the operation to an error. It adds the error of ctx if ctx has ended, because
// some drivers return another error then.
func failed(ctx context.Context, op string, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("sqlstore: %s: %w: %w", op, ended, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", op, err)
}

// probe returns the version of a row.
func (s *store) probe(ctx context.Context, op string, key tokenstore.Key) (version int64, err error) {
	if key.Validate() != nil {
		return 0, tokenstore.ErrNoRecord
	}
	err = s.retry(ctx, op, s.sql.probe, func(conn *sql.Conn) error {
		return one(ctx, conn, s.sql.probe, keyValues(key), func(row scanner) error { return row.Scan(&version) })
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = tokenstore.ErrNoRecord
	}
	return version, err
}

// conflict returns the reason why a write found no row.
func (s *store) conflict(ctx context.Context, op string, key tokenstore.Key) error {
	if _, err := s.probe(ctx, op, key); err != nil {
		return err
	}
	return tokenstore.ErrConflict
}

// String returns the type and the dialect, without any content.
func (s *store) String() string {
	return "sqlstore.Store{" + string(s.dialect) + "}"
}

// Format prints [store.String] for every verb.
func (s *store) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// OpenSQLite opens a SQLite file for [Open]. driver is the registered name of the driver
// modernc.org/sqlite, normally "sqlite". Your program imports that driver.
//
//	db, err := sqlstore.OpenSQLite("sqlite", "tokens.db")
//
// The file uses a write-ahead log, so readers do not wait for writers. Each commit is on the
// disk before it counts, so a power failure loses no token. All processes that use the file
// must run on one machine.
//
// OpenSQLite creates a missing file with mode 0600: only its owner can read and write it. The
// files that SQLite creates beside it get the same mode. Secrets are encrypted, but the IDs of
// users and of their accounts are not. An existing file keeps its mode.
//
// Use the returned pool only for the store. Its connections wait for other writers only
// briefly (busy_timeout), because the driver ignores the caller's context during that time.
// The store does the rest of the waiting. For your own tables in the same file, open a second
// pool with a busy_timeout of a few seconds and _txlock=immediate. Without both, your
// transactions fail with SQLITE_BUSY as soon as the store or another program writes at the
// same time.
//
// On Linux, call sqlite.OFDLocking(true) of modernc.org/sqlite before the first connection,
// unless your program imports package sqlinbox. Otherwise, if your program reads its own
// database file, closing that file releases the locks of SQLite. The sqlite3 shell can then
// remove the log. The store detects this and fails with [api.ErrReplaced].
//
// Errors:
//
//   - [*api.ArgumentError]: path is a URI, or ":memory:", which would open a separate
//     database for each connection
//   - [api.ErrUnsafePath]: the file has several hard links or is mounted on its own
//   - errors of the file system and of [sql.Open]
//
// OpenSQLite sends no statement to the database.
func OpenSQLite(driver, path string) (*sql.DB, error) {
	if _, err := sqlitefile.Create("sqlstore.OpenSQLite path", path); err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	db, err := sql.Open(driver, sqliteDSN(path))
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	return db, nil
}

func sqliteDSN(path string) string {
	return sqlitefile.DSN(path, url.Values{
		"_pragma": {"busy_timeout(50)", "journal_mode(wal)", "synchronous(full)"}, "_txlock": {"immediate"},
	})
}
