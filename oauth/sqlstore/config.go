package sqlstore

import (
	"errors"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// defaultPrefix keeps the tables together in a database full of others.
const defaultPrefix = "dispensary_"

// Config sets up a store; it is the same for [Migrate] and [New].
type Config struct {
	// TablePrefix begins the names of the tables; empty means "dispensary_".
	// Lower case letters, digits and underscores, 40 at most, beginning with a
	// letter. In PostgreSQL set the search path to use another schema.
	TablePrefix string

	// InsecurePlaintext lets the store hold tokens that were not sealed by
	// [tokens.Sealed]. A reader of the database, of a backup, of a slow query log or
	// a dump can then act as any of your users. It is for tests, and for
	// stores that are wrapped by your own sealing.
	InsecurePlaintext bool
}

// ErrPlaintext says that the store was handed a token that is not sealed, and did
// not take it. Wrap the store with [tokens.Sealed], or read about
// [Config.InsecurePlaintext].
var ErrPlaintext = errors.New("sqlstore: the token is not sealed: wrap the store with tokens.Sealed")

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

func (c Config) validate(dialect Dialect) error {
	if !dialect.known() {
		return &api.ArgumentError{Field: "sqlstore.Dialect", Reason: "is none of PostgreSQL, MySQL and SQLite"}
	}
	return sqlschema.CheckPrefix(c.prefix())
}

func (c Config) prefix() string {
	if c.TablePrefix == "" {
		return defaultPrefix
	}
	return c.TablePrefix
}

func (c Config) tokens() string { return c.prefix() + "oauth_tokens" }

// name fills the names of the tables in.
func (c Config) name(query string) string {
	return strings.NewReplacer("{tokens}", c.tokens(), "{flows}", c.prefix()+"oauth_flows").Replace(query)
}
