package sqlinbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestReaderReadsOpenInbox(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	c := config(t, func(context.Context, events.Event) error { return webhook.Permanent(errors.New("canary")) })
	attempts := receivertest.Observe(&c.Work)
	inbox := open(t, path, c)
	for range 3 {
		receivertest.Accept(t, inbox)
		<-attempts
	}
	beside, err := sqlinbox.OpenReader(path)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stats, err := beside.Stats(t.Context())
		return err == nil && stats.Dead == 3
	}, time.Minute, time.Millisecond)
	require.NoError(t, beside.Close(t.Context()))
	receivertest.Accept(t, inbox)
}

func TestReaderCreatesNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := sqlinbox.OpenReader(filepath.Join(folder, "none.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	empty, text := filepath.Join(folder, "empty.db"), filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(text, []byte("this is no database, whatever its name says it may be"), 0o600))
	_, err = sqlinbox.OpenReader(empty)
	var missing *api.SchemaError
	require.ErrorAs(t, err, &missing)
	_, err = sqlinbox.OpenReader(text)
	require.Error(t, err)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, files, 2)
	info, err := os.Stat(empty)
	require.NoError(t, err)
	assert.Zero(t, info.Size())
}

// After Close, SQLite keeps no file open.
func TestReaderClosesFiles(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	require.NoError(t, open(t, path, config(t, receivertest.Succeed)).Close(context.Background()))
	beside, err := sqlinbox.OpenReader(path)
	require.NoError(t, err)
	_, err = beside.Stats(t.Context())
	require.NoError(t, err)
	require.NoError(t, beside.Close(t.Context()))
	assert.NoFileExists(t, path+"-wal")
	assert.NoFileExists(t, path+"-shm")
}
