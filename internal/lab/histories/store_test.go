//go:build unix

package histories_test

import (
	"context"
	"database/sql"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

// database is where the tables are that the processes share.
type database struct {
	Dialect sqlstore.Dialect
	Source  string
}

// drivers are their names, by what they are for.
var drivers = map[sqlstore.Dialect]string{sqlstore.PostgreSQL: "pgx", sqlstore.MySQL: "mysql", sqlstore.SQLite: "sqlite"}

// newDatabase returns a database that ends with the test.
func newDatabase(t *testing.T, dialect sqlstore.Dialect) database {
	t.Helper()
	d := database{Dialect: dialect, Source: filepath.Join(t.TempDir(), "tokens.db")}
	if dialect != sqlstore.SQLite {
		d.Source = sqltest.Database(t, drivers[dialect])
	}
	db, err := d.open(&connections{})
	require.NoError(t, err)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, d.Dialect))
	require.NoError(t, db.Close())
	return d
}

// open returns a pool of connections that can be cut.
func (d database) open(c *connections) (*sql.DB, error) {
	switch d.Dialect {
	case sqlstore.PostgreSQL:
		config, err := pgx.ParseConfig(d.Source)
		if err != nil {
			return nil, err
		}
		config.DialFunc = c.dial
		return stdlib.OpenDB(*config), nil
	case sqlstore.MySQL:
		config, err := mysql.ParseDSN(d.Source)
		if err != nil {
			return nil, err
		}
		config.DialFunc, config.Logger = c.dial, &mysql.NopLogger{}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	}
	return sqlstore.OpenSQLite("sqlite", d.Source)
}

func (d database) store(db *sql.DB) (*sqlstore.Store, error) {
	return sqlstore.New(db, d.Dialect, sqlstore.Config{InsecurePlaintext: true}) // what was sealed could not be compared
}

// connections are those of a process to its database.
type connections struct {
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conn)
	return conn, nil
}

// cut ends all of them, whatever they are at.
func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}
