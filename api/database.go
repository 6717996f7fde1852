package api

import (
	"errors"
	"fmt"
)

// Errors of stores and inboxes in a SQLite file.
var (
	// ErrReplaced: the database, its log or its lock file was moved, removed or replaced while
	// it was open. The next start would not find anything written from now on, so every method
	// except Close fails with this error. Restart the process.
	ErrReplaced = errors.New("a file of the database was moved, removed or replaced while it was open: restart the process")

	// ErrUnsafePath: the database has several hard links, or is mounted as a single file, as
	// with "docker run -v ./program.db:/data/program.db", which would leave its log behind.
	// Mount the folder.
	ErrUnsafePath = errors.New("unsafe database path")
)

// SchemaError reports that a database does not have the schema that a store, a limiter or an
// inbox needs.
type SchemaError struct {
	// Table is the table with the version of the schema. If another program has created a table
	// with a name of the schema, Table is that one and all other fields are zero.
	Table string

	// Found is the version of the schema in the database. It is 0 if the tables are missing.
	Found int

	// Want is the version that this release needs.
	Want int

	// Oldest is the oldest version whose release may still use the schema. If it is greater than
	// Want, a newer release has changed the schema.
	Oldest int

	// Changed reports whether a function or trigger of the schema is missing, disabled or
	// different, although the version is right. A restore or a tool may have caused this.
	Changed bool

	// Migrate names the function that creates or migrates the schema.
	Migrate string
}

// Error names the table and the remedy.
func (e *SchemaError) Error() string {
	switch {
	case e == nil:
		return nilText
	case e.Want == 0:
		return "another program created table " + e.Table
	case e.Oldest > e.Want:
		return fmt.Sprintf("table %s has schema version %d of a newer release, and this release needs version %d: update the program", e.Table, e.Found, e.Want)
	case e.Changed:
		return "a function or trigger of the schema with table " + e.Table + " is missing or changed: call " + e.Migrate
	case e.Found == 0:
		return "the schema with table " + e.Table + " is missing: call " + e.Migrate
	}
	return fmt.Sprintf("table %s has schema version %d, and this release needs version %d: call %s", e.Table, e.Found, e.Want, e.Migrate)
}
