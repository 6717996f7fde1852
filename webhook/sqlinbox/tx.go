package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// tx is the open transaction of the writer.
type tx struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt

	ready  bool      // an event may be due
	vacant []**claim // the next events of vacant handlers
	now    int64     // time of handOut
}

// begin resets the state of the last transaction.
func (t *tx) begin() { t.ready, t.vacant, t.now = false, nil, 0 }

// close closes the prepared statements. Otherwise SQLite would keep a closed connection and
// its files open.
func (t *tx) close() (err error) {
	for _, s := range t.prepared {
		err = errors.Join(err, s.Close())
	}
	return err
}

// prepare returns a cached prepared statement. It uses the background context, because
// watching a context costs more than most statements.
func (t *tx) prepare(query string) (*sql.Stmt, error) {
	if s := t.prepared[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	t.prepared[query] = s
	return s, nil
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.changed(query, args...)
	return err
}

// changed runs a statement and returns the number of changed rows.
func (t *tx) changed(query string, args ...any) (int64, error) {
	s, err := t.prepare(query)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, fmt.Errorf("sqlinbox: %w", err)
	}
	return result.RowsAffected()
}

// first scans the first row, if any.
func (t *tx) first(query string, args []any, into ...any) (found bool, err error) {
	err = t.each(query, args, func(row *sql.Rows) error {
		if found {
			return nil
		}
		found = true
		return row.Scan(into...)
	})
	return found, err
}

// each calls scan for every row.
func (t *tx) each(query string, args []any, scan func(*sql.Rows) error) error {
	s, err := t.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return eachRow(rows, scan)
}
