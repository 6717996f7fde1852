package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/sqldb"
)

func TestContentionMatchesDriverErrors(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&pgconn.PgError{Code: "40001"}, &pgconn.PgError{Code: "40P01"},
		&mysql.MySQLError{Number: 1213, SQLState: [5]byte{'4', '0', '0', '0', '1'}, Message: "Deadlock found"}, &mysql.MySQLError{Number: 1020},
		coded(5), coded(6), coded(5 | 2<<8), errors.New("database is locked"),
	} {
		assert.True(t, sqldb.IsContention(err), "%v", err)
		assert.True(t, sqldb.IsContention(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	for _, err := range []error{
		nil, sql.ErrNoRows, context.Canceled, &pgconn.PgError{Code: "42P01"}, &mysql.MySQLError{Number: 1062}, coded(1), coded(11),
	} {
		assert.False(t, sqldb.IsContention(err), "%v", err)
	}
}

// coded is an error with a code, like the errors of modernc.org/sqlite.
type coded int

func (c coded) Error() string { return "sqlite" }
func (c coded) Code() int     { return int(c) }

func TestTurnsEndAfterPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, turn := time.Now(), new(sqldb.Turns)
		for turn.Next(t.Context()) {
			continue
		}
		assert.InDelta(t, sqldb.Patience.Seconds(), time.Since(began).Seconds(), 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began, turn = time.Now(), new(sqldb.Turns)
		for turn.Next(ctx) {
			continue
		}
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

func TestCompileReplacesNames(t *testing.T) {
	t.Parallel()
	const query = `SELECT x::bigint FROM t WHERE a = :a_one AND b = :b AND c = :a_one AND d < :now`
	for dialect, want := range map[Dialect]statement{
		PostgreSQL: {`SELECT x::bigint FROM t WHERE a = $1 AND b = $2 AND c = $1 AND d < $3`, []string{"a_one", "b", "now"}},
		MySQL:      {`SELECT x::bigint FROM t WHERE a = ? AND b = ? AND c = ? AND d < ?`, []string{"a_one", "b", "a_one", "now"}},
	} {
		assert.Equal(t, want, dialect.compile(query), dialect)
	}
	args := SQLite.compile(query).args(values{"a_one": 1, "b": "two"})
	assert.Equal(t, []any{1, "two", 1}, args[:3])
	assert.WithinDuration(t, time.Now(), time.UnixMicro(args[3].(int64)), time.Minute)
	assert.Equal(t, "UPDATE", PostgreSQL.compile("UPDATE").text)
}
