package sqlinbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// What is replayed beside the process that has the inbox open is handled by that process.
func TestMaintenanceBesideTheOwner(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var works atomic.Bool
	c := config(t, func(context.Context, events.Event) error {
		if works.Load() {
			return nil
		}
		return webhook.Permanent(errors.New("canary"))
	})
	attempts := receivertest.Observe(&c.Work)
	inbox := open(t, path, c)
	for range 3 {
		receivertest.Accept(t, inbox)
		<-attempts
	}
	require.Eventually(t, func() bool {
		stats, err := inbox.Stats(t.Context())
		return err == nil && stats.Dead == 3
	}, time.Minute, time.Millisecond)

	beside, err := sqlinbox.OpenMaintenance(path)
	require.NoError(t, err)
	stats, err := beside.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, stats.Dead)
	dead, err := beside.List(t.Context(), engine.Filter{States: []engine.State{engine.StateDead}}, engine.Position{}, 10)
	require.NoError(t, err)
	require.Len(t, dead, 3)
	n, err := beside.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{dead[0].Key}})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	works.Store(true)
	counts, err := beside.Count(t.Context(), engine.Filter{States: []engine.State{engine.StateDead}}, 0)
	require.NoError(t, err)
	n, err = beside.Replay(t.Context(), engine.Filter{Until: counts.Until})
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	require.NoError(t, beside.Close(t.Context()))

	receivertest.Accept(t, inbox) // else it looks within a minute
	for range 3 {
		assert.NoError(t, (<-attempts).Err)
	}
}

func TestMaintenanceMakesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := sqlinbox.OpenMaintenance(filepath.Join(folder, "none.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	empty, text := filepath.Join(folder, "empty.db"), filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(text, []byte("this is no database, whatever its name says it may be"), 0o600))
	_, err = sqlinbox.OpenMaintenance(empty)
	var missing *sqlinbox.SchemaError
	require.ErrorAs(t, err, &missing)
	_, err = sqlinbox.OpenMaintenance(text)
	require.Error(t, err)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, files, 2)
	info, err := os.Stat(empty)
	require.NoError(t, err)
	assert.Zero(t, info.Size())
}

// TestMaintenanceClosesItsFiles holds that nothing of SQLite stays open in a process that
// has closed it, also after it has written: the last connection takes the log along.
func TestMaintenanceClosesItsFiles(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	require.NoError(t, open(t, path, config(t, receivertest.Succeed)).Close(context.Background()))
	beside, err := sqlinbox.OpenMaintenance(path)
	require.NoError(t, err)
	_, err = beside.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{receivertest.NewDelivery().Key}})
	require.NoError(t, err)
	assert.FileExists(t, path+"-wal")
	require.NoError(t, beside.Close(t.Context()))
	assert.NoFileExists(t, path+"-wal")
	assert.NoFileExists(t, path+"-shm")
}
