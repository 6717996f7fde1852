package api

import "errors"

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

// SchemaError reports a table or column that a store, a limiter or an inbox needs and its
// database lacks.
type SchemaError struct {
	// Table is the first table with a difference.
	Table string

	// Column is the missing column of a table that another program or release created. It is
	// empty if the whole table is missing.
	Column string
}

// Error names the table and the column.
func (e *SchemaError) Error() string {
	switch {
	case e == nil:
		return nilText
	case e.Column == "":
		return "table " + e.Table + " is missing"
	}
	return "table " + e.Table + " has no column " + e.Column + ": another program or release created it"
}
