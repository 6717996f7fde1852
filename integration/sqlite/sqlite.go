// Package sqlite lets an integration keep tokens and webhook events in SQLite files, for one
// process. Import it for its effect:
//
//	import _ "github.com/dispensary-go/dispensary/integration/sqlite"
//
// The URL of a store or an inbox is then sqlite:/var/lib/ehr/dispensary.db. Both can be in one file.
// To write your own tables in the transaction that marks an event as handled, see
// [sqlinbox.InTransaction] and [integration.Integration].DB.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func init() {
	integration.Register("sqlite", integration.Driver{Parse: parse, OpenStore: openStore, OpenInbox: openInbox, OpenReader: openReader})
}

func parse(address string) (string, error) {
	path := strings.TrimPrefix(address, "sqlite:")
	if strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///") {
		return "", errors.New("must not begin with sqlite:// and a host: write sqlite:/var/lib/ehr/dispensary.db")
	}
	path = strings.TrimPrefix(path, "//") // sqlite:///var/lib/ehr.db
	if path == "" || strings.HasPrefix(path, ":") || strings.Contains(path, "?") {
		return "", errors.New("must name a file, such as sqlite:/var/lib/ehr/dispensary.db")
	}
	return path, nil
}

func openStore(ctx context.Context, path string, o integration.StoreOptions) (*integration.Store, error) {
	db, err := sqlstore.OpenSQLite("sqlite", path)
	if err != nil {
		return nil, err
	}
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

func openInbox(_ context.Context, path string, o integration.InboxOptions) (*integration.Inbox, error) {
	dsn, err := sqlinbox.DSN(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	inbox, err := sqlinbox.Open(path, sqlinbox.Config{Work: o.Work, Seal: o.Keys})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &integration.Inbox{Engine: inbox, DB: db, Close: func(context.Context) error { return db.Close() }}, nil
}

func openReader(_ context.Context, path string, _ *seal.KeyRing) (*integration.Reader, error) {
	inbox, err := sqlinbox.OpenReader(path)
	if err != nil {
		return nil, err
	}
	return &integration.Reader{Counter: inbox, Close: inbox.Close}, nil
}
