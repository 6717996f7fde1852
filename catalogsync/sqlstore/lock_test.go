package sqlstore_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// A broken connection loses the lock. If another process then begins a walk, the first walk
// must store nothing more.
func TestBrokenConnectionLosesLock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "pgx")
	db := d.open(t)
	one, two := d.store(t, db), d.store(t, d.open(t))
	unlock, err := one.Lock(t.Context())
	require.NoError(t, err)
	w := catalogstore.Walk{Generation: 1}
	require.NoError(t, one.Begin(t.Context(), w))
	_, err = two.Lock(t.Context())
	require.ErrorIs(t, err, catalogstore.ErrSyncing)

	// The two halves of the key are in classid and objid.
	_, err = db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
		AND (classid::bigint << 32) | objid::bigint = hashtextextended(current_schema() || '.dispensary_catalog', 0)`)
	require.NoError(t, err)
	var unlockTwo func() error
	require.Eventually(t, func() bool {
		unlockTwo, err = two.Lock(t.Context())
		return err == nil
	}, patience, moment)
	next := catalogstore.Walk{Generation: 2}
	require.NoError(t, two.Begin(t.Context(), next))
	listed, err := catalogstore.NewListed(start, catalog.Product{ID: "a"})
	require.NoError(t, err)
	_, err = one.SavePage(t.Context(), w, []catalogstore.Listed{listed})
	require.ErrorIs(t, err, catalogstore.ErrSuperseded)
	require.Error(t, unlock(), "unlock after the lock was lost")

	_, err = one.Lock(t.Context())
	require.ErrorIs(t, err, catalogstore.ErrSyncing, "another store has the lock")
	require.NoError(t, unlockTwo())
	unlock, err = one.Lock(t.Context())
	require.NoError(t, err)
	assert.NoError(t, unlock())
}

func TestRemovedLockFileStopsSync(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not remove a locked file")
	}
	d := newDatabase(t, "sqlite")
	store := d.store(t, d.open(t))
	unlock, err := store.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Begin(t.Context(), catalogstore.Walk{Generation: 1}))
	locks, err := filepath.Glob(filepath.Join(filepath.Dir(d.name), "*lock"))
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.NoError(t, os.Remove(locks[0]))
	listed, err := catalogstore.NewListed(start, catalog.Product{ID: "a"})
	require.NoError(t, err)
	_, err = store.SavePage(t.Context(), catalogstore.Walk{Generation: 1}, []catalogstore.Listed{listed})
	require.ErrorIs(t, err, catalogstore.ErrSyncing)
	require.NoError(t, unlock())

	unlock, err = store.Lock(t.Context())
	require.NoError(t, err)
	_, err = store.SavePage(t.Context(), catalogstore.Walk{Generation: 1}, []catalogstore.Listed{listed})
	require.NoError(t, err)
	require.NoError(t, unlock())
}

func TestLockRejectsSingleConnection(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "pgx")
	db := d.open(t)
	db.SetMaxOpenConns(1)
	_, err := d.store(t, db).Lock(t.Context())
	require.ErrorIs(t, err, api.ErrArgument)
}
