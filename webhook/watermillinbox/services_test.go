package watermillinbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/webhook/watermillinbox/natskv"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/sqlkv"
)

// The addresses of the servers that the tests run on.
const (
	natsVariable     = "DISPENSARY_TEST_NATS"     // nats://127.0.0.1:4222
	rabbitVariable   = "DISPENSARY_TEST_RABBITMQ" // amqp://guest:guest@127.0.0.1:5672/
	redisVariable    = "DISPENSARY_TEST_REDIS"    // redis://127.0.0.1:6379/
	postgresVariable = "DISPENSARY_TEST_POSTGRES" // postgres://postgres@127.0.0.1:5432/test?sslmode=disable
	mysqlVariable    = "DISPENSARY_TEST_MYSQL"    // root@tcp(127.0.0.1:3306)/test
)

func address(t testing.TB, variable string) string {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		t.Skipf("%s is not set", variable)
	}
	return text
}

// unique makes a name that no other test has.
func unique() string { return "t" + strings.ToLower(rand.Text()[:12]) }

// table makes a store in a table of its own, which ends with the test, and returns
// what opens it.
func table(t testing.TB, dialect sqlkv.Dialect) (open func() *sqlkv.Store, db *sql.DB, name string) {
	t.Helper()
	var driver, dsn string
	switch dialect {
	case sqlkv.SQLite:
		driver, dsn = "sqlite", sqlkv.SQLiteDSN(filepath.Join(t.TempDir(), "inbox?%.db"))
	case sqlkv.PostgreSQL:
		driver, dsn = "pgx", address(t, postgresVariable)
	case sqlkv.MySQL:
		driver, dsn = "mysql", address(t, mysqlVariable)
	}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(6)
	db.SetMaxIdleConns(6)
	options := sqlkv.Options{Table: unique()}
	t.Cleanup(func() {
		_, err := db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+options.Table)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	})
	require.NoError(t, sqlkv.Migrate(t.Context(), db, dialect, options))
	return func() *sqlkv.Store {
		store, err := sqlkv.New(db, dialect, options)
		require.NoError(t, err)
		return store
	}, db, options.Table
}

// natsConn connects to the server, until the test ends.
func natsConn(t testing.TB) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := nats.Connect(address(t, natsVariable))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return conn, js
}

// streams deletes streams when the test ends.
func streams(t testing.TB, js jetstream.JetStream, names ...string) {
	t.Cleanup(func() {
		for _, name := range names {
			_ = js.DeleteStream(context.Background(), name)
		}
	})
}

// buckets makes a store in buckets of its own, which end with the test.
func buckets(t testing.TB, js jetstream.JetStream, name string) *natskv.Store {
	t.Helper()
	streams(t, js, "KV_"+name, "KV_"+name+"_kept")
	store, err := patiently(func() (*natskv.Store, error) {
		return natskv.Open(t.Context(), js, natskv.Config{Bucket: name})
	})
	require.NoError(t, err)
	return store
}

// patiently makes a stream once more where the server was just removing the folder
// of all streams, because another test had deleted the last one.
func patiently[T any](create func() (T, error)) (T, error) {
	for tries := 0; ; tries++ {
		made, err := create()
		var refused *jetstream.APIError
		const cannotCreateStore = 10049
		if tries == 10 || !errors.As(err, &refused) || refused.ErrorCode != cannotCreateStore {
			return made, err
		}
	}
}
