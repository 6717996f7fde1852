package sqlstore_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
)

func TestReplacedFileStopsStore(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not move or remove open files")
	}
	for _, ends := range [][]string{{"", "-wal", "-shm"}, {""}, {"-wal"}} {
		d := newDatabase(t, "sqlite")
		store := d.store(t, d.open(t))
		w := catalogstore.Walk{Generation: 1}
		require.NoError(t, store.Begin(t.Context(), w))
		for _, end := range ends {
			require.NoError(t, os.Rename(d.name+end, d.name+".old"+end))
		}
		listed, err := catalogstore.NewListed(start, catalog.Product{ID: "a"})
		require.NoError(t, err)
		for range 2 {
			_, err = store.SavePage(t.Context(), w, []catalogstore.Listed{listed})
			require.ErrorIs(t, err, api.ErrReplaced)
		}
		require.ErrorIs(t, store.Request(t.Context(), start, "a"), api.ErrReplaced)
		_, err = store.State(t.Context())
		require.ErrorIs(t, err, api.ErrReplaced)
	}
}

func TestHardLinkIsRejected(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not count links")
	}
	d := newDatabase(t, "sqlite")
	db := d.open(t)
	require.NoError(t, os.Link(d.name, d.name+".link"))
	_, err := d.store(t, db).State(t.Context())
	require.ErrorIs(t, err, api.ErrUnsafePath)
	_, err = sqlstore.OpenSQLite(t.Context(), "sqlite", d.name+".link")
	require.ErrorIs(t, err, api.ErrUnsafePath)
}
