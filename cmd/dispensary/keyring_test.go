package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/seal"
)

// mapKeyring is a keyring in memory.
type mapKeyring map[string]string

func (k mapKeyring) Get(service, user string) (string, error) {
	if secret, ok := k[service+" "+user]; ok {
		return secret, nil
	}
	return "", errors.New("not found")
}

func (k mapKeyring) Set(service, user, password string) error {
	k[service+" "+user] = password
	return nil
}

// lockedKeyring blocks until the end of the test.
type lockedKeyring struct{ over chan struct{} }

func (k lockedKeyring) Get(string, string) (string, error) { <-k.over; return "", errors.New("locked") }
func (k lockedKeyring) Set(string, string, string) error   { <-k.over; return errors.New("locked") }

func TestKeyringStoresKey(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ring := mapKeyring{}
	made, err := sealKeys(t.Context(), ring, folder)
	require.NoError(t, err)
	_, err = seal.ParseKeyRing(made)
	require.NoError(t, err)
	again, err := sealKeys(t.Context(), ring, folder)
	require.NoError(t, err)
	assert.Equal(t, made.Reveal(), again.Reveal())
	other, err := sealKeys(t.Context(), ring, t.TempDir())
	require.NoError(t, err)
	assert.NotEqual(t, made.Reveal(), other.Reveal())
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, files)

	// Without the keyring, a new key could not decrypt the existing store.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokens-us-sandbox-1.db"), nil, 0o600))
	_, err = sealKeys(t.Context(), noKeyring{}, folder)
	require.ErrorContains(t, err, "unlock the keyring and retry: there is no keyring")
}

func TestFileReplacesUnresponsiveKeyring(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		locked := lockedKeyring{make(chan struct{})}
		defer close(locked.over)
		begin := time.Now()
		made, err := sealKeys(t.Context(), locked, folder)
		require.NoError(t, err)
		assert.Equal(t, 2*keyringTime, time.Since(begin), "waits for reading and for storing the key")
		info, err := os.Stat(filepath.Join(folder, "seal.key"))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		begin = time.Now()
		again, err := sealKeys(t.Context(), locked, folder)
		require.NoError(t, err)
		assert.Equal(t, made.Reveal(), again.Reveal())
		assert.Zero(t, time.Since(begin), "reads the file before the keyring")
	})
}
