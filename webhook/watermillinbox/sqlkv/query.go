package sqlkv

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dispensary-go/dispensary/internal/contention"
)

// change runs a statement that writes, and returns how many rows it changed. It is
// run again where the database gave it up because of others.
func (s *Store) change(ctx context.Context, op, query string, args []any) (changed int64, err error) {
	err = s.retry(ctx, op, func() error {
		if s.writing != nil {
			select {
			case s.writing <- struct{}{}:
				defer func() { <-s.writing }()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		result, err := s.db.ExecContext(ctx, s.text(query), args...)
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	return changed, err
}

// each runs a query and calls scan for every row. Rows that were scanned before an
// error stay scanned.
func (s *Store) each(ctx context.Context, op, query string, args []any, scan func(*sql.Rows) error) error {
	return s.retry(ctx, op, func() error {
		rows, err := s.db.QueryContext(ctx, s.text(query), args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

func (s *Store) text(query string) string { return s.dialect.places(s.options.name(query)) }

// retry runs an operation until it is not given up because of others any more.
// Errors of drivers name tables and places, and no values.
func (s *Store) retry(ctx context.Context, op string, run func() error) error {
	for turn := new(contention.Turns); ; {
		err := ctx.Err()
		if err == nil {
			err = run()
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("sqlkv: %s: %w", op, ctx.Err())
		case !contention.Is(err) || !turn.Next(ctx):
			return fmt.Errorf("sqlkv: %s: %w", op, err)
		}
	}
}
