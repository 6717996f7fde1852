//go:build unix

package powercut_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/lab/mutant"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// inboxMutants returns mistakes that TestInbox must find.
func inboxMutants() []*mutant.Mutant {
	return []*mutant.Mutant{
		{Name: "syncs at checkpoints only", Rewrite: synchronous("NORMAL")},
		{Name: "never syncs", Rewrite: synchronous("OFF")},
		{Name: "reports success before the commit", Late: true},
	}
}

// TestInboxMutants checks that TestInbox finds each mistake, and logs the number of images until
// then.
func TestInboxMutants(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, m := range inboxMutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := &inboxRun{ring: receivertest.KeyRing(t), open: func(path string, c sqlinbox.Config) (*sqlinbox.Inbox, func() error, error) {
				return openMutant(m, path, c)
			}}
			r.record(t)
			require.Positive(t, m.Applied())
			result := cutAll(t, r.log, inboxImages(), r.check)
			require.NotEmpty(t, result.broken, "%s", result)
			t.Logf("found in image %d: %s", result.first, result.broken[0])
		})
	}
}

// synchronous lowers the synchronous level of the database to level. Queries of the level still
// return FULL.
func synchronous(level string) func(string) string {
	return func(query string) string {
		switch query {
		case "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL":
			return "PRAGMA synchronous = " + level
		case "PRAGMA synchronous":
			return "SELECT 2"
		}
		return query
	}
}

// openMutant opens an inbox with a mistake.
func openMutant(m *mutant.Mutant, path string, c sqlinbox.Config) (*sqlinbox.Inbox, func() error, error) {
	dsn, err := sqlinbox.DSN(path)
	if err != nil {
		return nil, nil, err
	}
	db, err := m.Open("sqlite", dsn)
	if err != nil {
		return nil, nil, err
	}
	if err := sqlinbox.Migrate(context.Background(), db); err != nil {
		return nil, nil, err
	}
	inbox, err := sqlinbox.New(db, c)
	return inbox, db.Close, err
}
