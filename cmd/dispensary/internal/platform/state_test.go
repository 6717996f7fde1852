package platform

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The state file is never more than one second behind, even under constant writes.
func TestStateFileFollowsWithinOneSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stateFile{name: filepath.Join(t.TempDir(), "state.json")}
		s.platform = dispensarytest.New(t, dispensarytest.WithInMemory())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.writeChanges(ctx) }()
		registered := make(map[string]time.Time)
		for range 60 {
			patient, _, err := s.platform.Patients.Create(model.PatientCreate{})
			require.NoError(t, err)
			registered[patient.ID] = time.Now()
			time.Sleep(time.Second / 20)
			synctest.Wait()
			there := patientIDs(t, s.name)
			for id, at := range registered {
				assert.True(t, there[id] || time.Since(at) < time.Second, "registered %s ago", time.Since(at))
			}
		}
		stop()
		require.NoError(t, <-ended)
	})
}

// A reader always finds a complete file, so a killed process leaves one, too.
func TestStateFileIsAlwaysComplete(t *testing.T) {
	t.Parallel()
	s := &stateFile{name: filepath.Join(t.TempDir(), "state.json"), platform: dispensarytest.New(t, dispensarytest.WithInMemory())}
	require.NoError(t, s.save())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			_, _, err := s.platform.Patients.Create(model.PatientCreate{})
			if err := errors.Join(err, s.save()); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for range 100 {
		file, err := os.ReadFile(s.name)
		require.NoError(t, err)
		platform, err := dispensarytest.Start(dispensarytest.WithInMemory(), dispensarytest.WithSnapshot(file))
		require.NoError(t, err)
		require.NoError(t, platform.Close())
	}
	stop()
	require.NoError(t, <-ended)
}

// patientIDs returns the ids of the patients in a state file.
func patientIDs(t *testing.T, name string) map[string]bool {
	t.Helper()
	snapshot, err := os.ReadFile(name)
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, p := range dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithSnapshot(snapshot)).Patients.All() {
		ids[p.ID] = true
	}
	return ids
}
