package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/contention"
)

// tx is a transaction that has locked the row of the state, as every transaction that changes
// records does. Revisions are therefore committed in order, and no other transaction changes a
// record after it was read.
type tx struct {
	*sql.Tx
	ctx   context.Context
	store *Store

	// The state, as read by load and as stored by save.
	revision         int64
	newest, complete walk
}

// change runs a transaction, and runs it again if the database aborted it because of others.
func (s *Store) change(ctx context.Context, op string, run func(t *tx) error) error {
	return s.write(ctx, op, func(conn *sql.Conn) error {
		inner, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		t := &tx{Tx: inner, ctx: ctx, store: s}
		for _, act := range []func() error{t.load, func() error { return run(t) }, t.save} {
			if err := act(); err != nil {
				_ = inner.Rollback()
				return err
			}
		}
		return inner.Commit()
	})
}

// write runs a write on one connection. In SQLite it waits for the other writes of this
// process. It runs the write again if the database aborted it because of others, or if the
// server of the connection is read-only.
func (s *Store) write(ctx context.Context, op string, run func(*sql.Conn) error) error {
	if s.writing != nil {
		select {
		case s.writing <- struct{}{}:
			defer func() { <-s.writing }()
		case <-ctx.Done():
			return failed(ctx, op, ctx.Err())
		}
	}
	if err := s.checkLock(); err != nil {
		return failed(ctx, op, err)
	}
	err := contention.Retry(ctx, func() error { return s.pool.Do(ctx, run) })
	if err == nil || errors.Is(err, catalogstore.ErrSuperseded) {
		return err
	}
	return failed(ctx, op, err)
}

// errState means that another program deleted the only row of the state.
var errState = errors.New("dispensary_catalog_state is empty")

func (t *tx) load() error {
	found, err := rowsOf(t.ctx, t, func(rows *sql.Rows) (none struct{}, err error) {
		var newest, complete []byte
		if err := rows.Scan(&t.revision, &newest, &complete); err != nil {
			return none, err
		}
		return none, decodeWalks(newest, complete, &t.newest, &t.complete)
	}, t.store.sql.lockState)
	if err == nil && len(found) != 1 {
		err = errState
	}
	return err
}

func (t *tx) save() error {
	newest, err := json.Marshal(t.newest)
	if err != nil {
		return err
	}
	complete, err := json.Marshal(t.complete)
	if err != nil {
		return err
	}
	_, err = t.exec(t.store.sql.saveState, t.revision, string(newest), string(complete))
	return err
}

// next returns the revision of the next change.
func (t *tx) next() int64 {
	t.revision++
	return t.revision
}

func (t *tx) exec(query string, args ...any) (changed int64, err error) {
	result, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
