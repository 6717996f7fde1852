package sqlinbox_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestInboxSurvivesFullDisk fills a small file system.
func TestInboxSurvivesFullDisk(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"running": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=8m,mode=0700"); err != nil {
				if os.Getuid() != 0 {
					t.Skip("needs root to mount a file system")
				}
				t.Skip("cannot mount a file system on this machine")
			}
			t.Cleanup(func() { assert.NoError(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
			path := filepath.Join(folder, "inbox.db")
			fillUp(t, path, restart, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.Open(path, c) },
				func(*sqlinbox.Inbox) {
					require.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, "size=32m,mode=0700"))
				})
		})
	}
}
