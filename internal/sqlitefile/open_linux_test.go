package sqlitefile_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// This process still has the log open that was at the path before.
func TestGuardDetectsOpenOldLog(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(log string) error{
		"removed": os.Remove,
		"renamed": func(log string) error { return os.Rename(log, log+".old") },
	} {
		path := database(t)
		require.NoError(t, os.WriteFile(path+"-wal", []byte("\x37\x7f\x06\x82"), 0o600))
		log, err := os.Open(path + "-wal")
		require.NoError(t, err)
		guard, err := sqlitefile.NewGuard(sqlitefile.Config{Path: path})
		require.NoError(t, err)
		require.NoError(t, replace(path+"-wal"))
		require.ErrorIs(t, guard.Check(), api.ErrReplaced, name)
		require.NoError(t, log.Close())
	}
}
