package simulation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/schedule"
)

// regression is a schedule that once showed something, shrunk to its decisions: a defect that
// is fixed since, or what callers have to expect. explore prints the decisions of a
// violation as they stand here. Replay makes them in the world of the seed, and plain
// steps between them.
type regression struct {
	name      string
	scenario  schedule.Scenario // a family's, with more to hold in the end if need be
	seed      uint64
	decisions []schedule.Decision
}

var regressions = []regression{
	{
		name: "of two processes that ensure a patient both may say that they created it", scenario: bothMayHaveCreated, seed: 257,
		decisions: []schedule.Decision{
			{Kind: "call", Process: "replica 2", Name: "ensures patient-shared "},
			{Kind: "call", Process: "replica 2", Name: "GET /clinic/metadata shared"},
			{Kind: "call", Process: "replica 2", Name: "GET /clinic/search/patients shared"},
			{Kind: "call", Process: "replica 2", Name: "POST /clinic/patients shared", Fate: schedule.Dropped},
		},
	},
}

// bothMayHaveCreated holds that there is one patient, whom each process may take for its own:
// the one whose call was lost finds the other's, and cannot know whose it is.
func bothMayHaveCreated(s *schedule.Scheduler) {
	w := newWrites(s)
	s.InTheEnd(func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		created, records := w.created["patient-shared"], w.count("shared@example.com")
		if records != 1 || created < 1 || created > 2 {
			return fmt.Errorf("there are %d patients, and %d calls have created one", records, created)
		}
		return nil
	})
}

func TestRegressions(t *testing.T) {
	for _, r := range regressions {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			o := schedule.Replay(t, r.seed, r.scenario, r.decisions)
			require.NoError(t, o.Violation, "%s", o)
			assert.Equal(t, r.decisions, o.Decisions, "every decision can still be made")
		})
	}
}
