package sqlinbox_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/inboxtest"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestInboxKeepsTheContract(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, func(t *testing.T) inboxtest.Storage {
		path, keys := filepath.Join(t.TempDir(), "in box?%.db"), receivertest.KeyRing(t)
		open := func(work webhook.Work, aead seal.AEAD) (engine.Engine, error) {
			inbox, err := sqlinbox.Open(path, sqlinbox.Config{Work: work, Seal: aead})
			if err != nil {
				return nil, err
			}
			return inbox, nil
		}
		return inboxtest.Storage{
			Durable:    true,
			Ordered:    true,
			Open:       func(work webhook.Work) (engine.Engine, error) { return open(work, keys) },
			OpenSealed: open,
			Crash:      func(e engine.Engine) { e.(*sqlinbox.Inbox).Crash() },
			Dump:       func(t *testing.T) []byte { return dump(t, path) },
		}
	})
}

// dump returns everything in the folder of the database: the write-ahead log
// too.
func dump(t *testing.T, path string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	var all bytes.Buffer
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all.WriteString(file)
		all.Write(content)
	}
	return all.Bytes()
}
