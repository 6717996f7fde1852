package api

import "errors"

// Errors of stores and inboxes in a SQLite file.
var (
	// ErrReplaced: the database, its log or its lock file was moved, removed or replaced while
	// it was open, so that the next start would not find what is written now. Every method
	// fails with it from then on, except Close. Restart the process.
	ErrReplaced = errors.New("a file of the database was moved, removed or replaced while it was open: restart the process")

	// ErrUnsafePath: the database has several hard links, or is mounted alone, as with
	// "docker run -v ./program.db:/data/program.db", so that its log would stay behind. Mount
	// the folder.
	ErrUnsafePath = errors.New("unsafe database path")
)

// SchemaError reports a difference between a database and the tables of a store, a limiter or an
// inbox.
type SchemaError struct {
	// Table is the first wrong table.
	Table string

	// Column is the missing column, because another program or release created the table. It
	// is empty if the whole table is missing.
	Column string
}

// Error names the table and the column.
func (e *SchemaError) Error() string {
	if e.Column == "" {
		return "table " + e.Table + " is missing"
	}
	return "table " + e.Table + " has no column " + e.Column + ": another program or release created it"
}
