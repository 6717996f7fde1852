package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of postgres:
	flag "github.com/spf13/pflag"
	_ "modernc.org/sqlite" // the driver of SQLite files

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
)

// catalogStore contains the flags for the place of the copy.
type catalogStore struct {
	*program
	target
	address string
}

func (s *catalogStore) define(flags *flag.FlagSet) {
	s.target.define(flags)
	flags.StringVar(&s.address, "store", "", "`PATH` of a SQLite file or postgres:// URL with the copy (default: a file in the cache folder)")
}

// catalogCopy is an open copy of the catalog.
type catalogCopy struct {
	*sqlstore.Store
	db      *sql.DB
	address string
}

// open opens the copy. Without write, it fails if no sync has stored a page yet.
func (s *catalogStore) open(ctx context.Context, write bool) (*catalogCopy, error) {
	address, err := s.resolve()
	if err != nil {
		return nil, err
	}
	if !write && !isPostgres(address) { // opening would create the file
		if about, err := os.Stat(address); errors.Is(err, fs.ErrNotExist) || err == nil && about.Size() == 0 {
			return nil, fmt.Errorf("--store %s contains no copy yet: run dispensary catalog sync", address)
		}
	}
	c := &catalogCopy{address: address}
	if isPostgres(address) {
		c.db, err = sql.Open("pgx", address)
	} else {
		c.db, err = sqlstore.OpenSQLite(ctx, "sqlite", address)
	}
	if err != nil {
		return nil, c.problem(err)
	}
	c.Store, err = sqlstore.Open(ctx, c.db)
	if err == nil && !write {
		var state catalogstore.State
		if state, err = c.State(ctx); err == nil && state.Newest.Generation == 0 {
			err = catalogsync.ErrNotLoaded
		}
	}
	if err != nil {
		_ = c.db.Close()
		return nil, c.problem(err)
	}
	return c, nil
}

// resolve returns the path or the PostgreSQL URL of the copy.
func (s *catalogStore) resolve() (string, error) {
	scheme, rest, is := strings.Cut(s.address, ":")
	switch {
	case s.address == "":
		return s.defaultFile()
	case isPostgres(s.address):
		return s.address, checkPostgres(s.address)
	case scheme == "sqlite" && strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///"):
		return "", errors.New("--store: a host follows sqlite://: use sqlite: and the path of the file")
	case scheme == "sqlite" && rest != "":
		return strings.TrimPrefix(rest, "//"), nil
	case is && strings.HasPrefix(rest, "//"):
		return "", fmt.Errorf("--store: %s is not supported: use the path of a file or a postgres:// URL", scheme+"://…")
	}
	return s.address, nil
}

// defaultFile returns the path of the site's file in the user's cache folder, and creates the
// folder.
func (s *catalogStore) defaultFile() (string, error) {
	c, err := s.loadConfig()
	if err != nil {
		return "", err
	}
	a, err := s.application(c, s.target)
	if err != nil {
		return "", err
	}
	folder, err := s.cacheDir()
	if err != nil {
		return "", fmt.Errorf("--store is required: %w", err)
	}
	folder = filepath.Join(folder, "dispensary")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(folder, siteFile("catalog", ".db", a.Site)), nil
}

func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// checkPostgres rejects an invalid URL and a URL with a password, because other users of the
// machine can read the command line. Its errors contain no part of the URL.
func checkPostgres(address string) error {
	u, err := url.Parse(address)
	if err == nil {
		_, err = pgx.ParseConfig(address)
	}
	if err != nil {
		return errors.New("--store is not a valid PostgreSQL URL")
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return errors.New("--store must not contain a password: set PGPASSWORD or PGPASSFILE")
	}
	return nil
}

// problem returns the error of a copy in terms of --store.
func (c *catalogCopy) problem(err error) error {
	name := c.address
	if isPostgres(name) {
		name = "postgres://…"
	}
	switch {
	case errors.Is(err, sqlstore.ErrNotCatalog):
		return fmt.Errorf("--store %s is not a copy of the catalog: use another file or database", name)
	case errors.Is(err, catalogsync.ErrNotLoaded):
		return fmt.Errorf("--store %s contains no copy yet: run dispensary catalog sync", name)
	case errors.Is(err, catalogstore.ErrSyncing):
		return fmt.Errorf("--store %s: another sync is running: wait until it ends", name)
	}
	return fmt.Errorf("--store %s: %w", name, err)
}

// pagesOf returns the number of pages by the last known total of the list.
func pagesOf(w catalogstore.Walk) int {
	return max(w.Page, (w.Total+w.PageSize-1)/max(w.PageSize, 1))
}
