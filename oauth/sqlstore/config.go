package sqlstore

import (
	"errors"

	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// Config is the configuration of a [Store].
type Config struct {
	// InsecurePlaintext lets the store hold tokens that were not sealed by
	// [tokenstore.Sealed]. A reader of the database, of a backup, of a slow query log or
	// a dump can then act as any of your users. It is for tests, and for
	// stores that are wrapped by your own sealing.
	InsecurePlaintext bool
}

// ErrPlaintext says that the store was handed a token that is not sealed, and did
// not take it. Wrap the store with [tokenstore.Sealed], or read about
// [Config.InsecurePlaintext].
var ErrPlaintext = errors.New("sqlstore: the token is not sealed: wrap the store with tokenstore.Sealed")

// Errors of a SQLite file.
var (
	// ErrReplaced: the SQLite database or its log was moved, removed or replaced while it was
	// open, so that the next start would not find what is written now. Every method of the
	// store fails with it from then on. Restart the process.
	ErrReplaced = sqlitefile.ErrReplaced

	// ErrUnsafePath: the SQLite database has several hard links, or is mounted alone, as with
	// "docker run -v ./tokens.db:/data/tokens.db", so that its log would stay behind. Mount the
	// folder.
	ErrUnsafePath = sqlitefile.ErrUnsafePath
)
