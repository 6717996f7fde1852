// Package mysql lets an integration keep tokens in MySQL or MariaDB. Import it for its effect:
//
//	import _ "github.com/dispensary-go/dispensary/integration/mysql"
//
// The URL of a store is then mysql:user:password@tcp(host:3306)/database, as in the Go driver. If
// your program may not create tables, create them with [sqlstore.Schema].
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

// maxConns is the number of connections. Each method runs one or two statements, so few
// connections serve many users.
const maxConns = 10

func init() {
	integration.Register("mysql", integration.Driver{Parse: parse, Private: private, OpenStore: openStore})
}

func parse(address string) (string, error) {
	name := strings.TrimPrefix(address, "mysql:")
	if _, err := driver.ParseDSN(name); err != nil {
		return "", errors.New("is not a valid data source name of the MySQL driver")
	}
	return name, nil
}

func private(name string) bool {
	config, err := driver.ParseDSN(name)
	if err != nil {
		return false
	}
	host, _, err := net.SplitHostPort(config.Addr)
	return config.Net == "unix" || err == nil && integration.IsLocal(host) || config.TLS != nil && !config.AllowFallbackToPlaintext
}

func openStore(ctx context.Context, name string, o integration.StoreOptions) (*integration.Store, error) {
	db, err := sql.Open("mysql", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxLifetime(3 * time.Minute) // servers and load balancers drop old connections silently
	open := sqlstore.Open
	if o.Existing {
		open = sqlstore.OpenExisting
	}
	store, err := open(ctx, db, o.Keys)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &integration.Store{Store: store, Close: func(context.Context) error { return db.Close() }}, nil
}
