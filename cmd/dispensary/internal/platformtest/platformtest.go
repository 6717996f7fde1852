// Package platformtest looks into what a platform has left, for the tests of programs that run
// one.
package platformtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// PatientIDs returns the ids of the patients in a state file.
func PatientIDs(t testing.TB, name string) map[string]bool {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	snapshot, err := dispensarytest.LoadSnapshot(file)
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, p := range dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithSnapshot(snapshot)).Patients.All() {
		ids[p.ID] = true
	}
	return ids
}
