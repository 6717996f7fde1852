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
	_ "modernc.org/sqlite" // the driver of files

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
)

// catalogStore says where the copy of the catalog is.
type catalogStore struct {
	*program
	target
	address string
}

func (s *catalogStore) define(flags *flag.FlagSet) {
	s.target.define(flags)
	flags.StringVar(&s.address, "store", "", "keep the copy in `PATH`, a SQLite file, or at a postgres:// address; a file of the cache folder unless set")
}

// catalogCopy is a copy of the catalog that is open.
type catalogCopy struct {
	*sqlstore.Store
	db      *sql.DB
	address string
}

// open opens the copy. To read, a sync must have begun to fill it.
func (s *catalogStore) open(ctx context.Context, write bool) (*catalogCopy, error) {
	address, err := s.resolve()
	if err != nil {
		return nil, err
	}
	if !write && !isPostgres(address) { // to open a file makes it
		if about, err := os.Stat(address); errors.Is(err, fs.ErrNotExist) || err == nil && about.Size() == 0 {
			return nil, fmt.Errorf("--store %s: there is no catalog yet, dispensary catalog sync makes it", address)
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

// resolve returns the path or the address of the copy.
func (s *catalogStore) resolve() (string, error) {
	scheme, rest, is := strings.Cut(s.address, ":")
	switch {
	case s.address == "":
		return s.defaultFile()
	case isPostgres(s.address):
		return s.address, checkPostgres(s.address)
	case scheme == "sqlite" && strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///"):
		return "", errors.New("--store: sqlite:// begins with a host: write sqlite: and the path of the file")
	case scheme == "sqlite" && rest != "":
		return strings.TrimPrefix(rest, "//"), nil
	case is && strings.HasPrefix(rest, "//"):
		return "", fmt.Errorf("--store: %s is neither the path of a file nor an address of postgres://", scheme+"://…")
	}
	return s.address, nil
}

// defaultFile is the file of the site in the user's cache folder.
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
		return "", fmt.Errorf("--store is needed: %w", err)
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

// checkPostgres refuses what is no address, and a password, which others on the machine could
// read as part of the command line. What it says has nothing of the address.
func checkPostgres(address string) error {
	u, err := url.Parse(address)
	if err == nil {
		_, err = pgx.ParseConfig(address)
	}
	if err != nil {
		return errors.New("--store: not an address as PostgreSQL's driver reads it")
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return errors.New("--store: leave the password out, and set PGPASSWORD or PGPASSFILE")
	}
	return nil
}

// problem says what is wrong with a copy, in the words of the command line.
func (c *catalogCopy) problem(err error) error {
	name := c.address
	if isPostgres(name) {
		name = "postgres://…"
	}
	switch {
	case errors.Is(err, sqlstore.ErrNotCatalog):
		return fmt.Errorf("--store %s: not a catalog; it is left as it is", name)
	case errors.Is(err, catalogsync.ErrNotLoaded):
		return fmt.Errorf("--store %s: there is no catalog yet, dispensary catalog sync makes it", name)
	case errors.Is(err, catalogstore.ErrSyncing):
		return fmt.Errorf("--store %s: another sync of it is under way", name)
	}
	return fmt.Errorf("--store %s: %w", name, err)
}

// pagesOf is how many pages the list had, as it said last.
func pagesOf(w catalogstore.Walk) int {
	return max(w.Page, (w.Total+w.PageSize-1)/max(w.PageSize, 1))
}
