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
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// database is the database shared by the processes.
type database struct {
	Dialect string
	Source  string
}

// The dialects.
const (
	postgreSQL = "postgresql"
	mySQL      = "mysql"
	sqlite     = "sqlite"
)

// drivers contains the driver names by dialect.
var drivers = map[string]string{postgreSQL: "pgx", mySQL: "mysql", sqlite: "sqlite"}

// newDatabase creates a database with the tables of the store and deletes it after the test.
func newDatabase(t *testing.T, dialect string) database {
	t.Helper()
	d := database{Dialect: dialect, Source: filepath.Join(t.TempDir(), "tokens.db")}
	if dialect != sqlite {
		d.Source = sqltest.Database(t, drivers[dialect])
	}
	db, err := d.open(&connections{})
	require.NoError(t, err)
	_, err = sqlstore.Open(t.Context(), db, seal.InsecurePlaintext{})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return d
}

// open opens the database. c can cut its connections to a server.
func (d database) open(c *connections) (*sql.DB, error) {
	switch d.Dialect {
	case postgreSQL:
		config, err := pgx.ParseConfig(d.Source)
		if err != nil {
			return nil, err
		}
		config.DialFunc = c.dial
		return stdlib.OpenDB(*config), nil
	case mySQL:
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

func (d database) store(db *sql.DB) (tokenstore.Store, error) {
	return sqlstore.OpenExisting(context.Background(), db, seal.InsecurePlaintext{})
}

// connections contains the connections of a process to its database.
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

// cut closes all connections, even during a call.
func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}
