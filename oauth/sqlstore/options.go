package sqlstore

import (
	"errors"
	"regexp"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// defaultPrefix keeps the tables together in a database full of others.
const defaultPrefix = "dispensary_"

// Options are the same for [Migrate] and [New].
type Options struct {
	// TablePrefix begins the names of the tables; empty means "dispensary_".
	// Lower case letters, digits and underscores, 40 at most, beginning with a
	// letter. In PostgreSQL set the search path to use another schema.
	TablePrefix string

	// InsecurePlaintext lets the store hold tokens that were not sealed by
	// [tokens.Sealed]. Whoever reads the database, a backup, a slow query log or
	// a dump can then act as any of your users. It is for tests, and for
	// stores that are wrapped by a sealing of your own.
	InsecurePlaintext bool
}

// ErrPlaintext says that the store was handed a token that is not sealed, and did
// not take it. Wrap the store with [tokens.Sealed], or read about
// [Options.InsecurePlaintext].
var ErrPlaintext = errors.New("sqlstore: the token is not sealed: wrap the store with tokens.Sealed")

var prefixForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

func (o Options) validate(dialect Dialect) error {
	if _, known := steps[dialect]; !known {
		return &api.ArgumentError{Field: "sqlstore.Dialect", Reason: "is none of PostgreSQL, MySQL and SQLite: see Detect"}
	}
	if !prefixForm.MatchString(o.prefix()) {
		return &api.ArgumentError{
			Field: "sqlstore.Options.TablePrefix", Reason: "must be lower case letters, digits and underscores, 40 at most, a letter first",
		}
	}
	return nil
}

func (o Options) prefix() string {
	if o.TablePrefix == "" {
		return defaultPrefix
	}
	return o.TablePrefix
}

func (o Options) tokens() string { return o.prefix() + "oauth_tokens" }

// name fills the names of the tables in.
func (o Options) name(query string) string {
	return strings.NewReplacer("{tokens}", o.tokens(), "{schema}", o.prefix()+"oauth_schema").Replace(query)
}
