package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// callers are the commands that call the platform, with their arguments.
var callers = [][]string{
	{"api", "GET", "/clinic"}, {"listen", "--forward-to", "http://127.0.0.1:9/x"},
}

// The help of a command explains neither a network error nor a missing file.
func TestUnreachablePlatformIsRejected(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	f.variables["DISPENSARY_US_SANDBOX_BASE_URL"] = "http://" + freeAddress(t) + "/api"
	for _, args := range append(callers, []string{"api", "POST", "/clinic/patients", "-f", "first_name=Ada"}, []string{"trigger", "patient.created", "--control", "http://" + freeAddress(t)}) {
		assert.NotContains(t, f.refused("connection refused", args...), "dispensary help", args)
	}
	assert.NotContains(t, f.refused("no such file", "api", "POST", "/clinic/patients", "--input", f.folder+"/absent"), "dispensary help")
	output := filepath.Join(t.TempDir(), "behaviors.json")
	f.refused("connection refused", "probe", "--yes", "--output", output)
	assert.NoFileExists(t, output)
	assert.Empty(t, f.platform.Journal.Requests())
}

// The store file stays unchanged.
func TestUnreadableStoreIsRejected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store := filepath.Join(t.TempDir(), "tokens.db")
	damaged := []byte("this is no database, whatever its name says it may be")
	require.NoError(t, os.WriteFile(store, damaged, 0o600))
	f.variables["DISPENSARY_STORE"] = "sqlite:" + store
	f.variables["DISPENSARY_SEAL_KEYS"] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	for _, args := range append(callers, []string{"login"}, []string{"accounts", "list"}, []string{"accounts", "restore"}, []string{"accounts", "disconnect"}, []string{"probe", "--yes"}) {
		f.refused("not a database", args...)
	}
	kept, err := os.ReadFile(store)
	require.NoError(t, err)
	assert.Equal(t, damaged, kept)
	assert.Empty(t, f.platform.Journal.Requests())
}
