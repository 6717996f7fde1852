//go:build unix

package histories_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/lab/mutant"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestInboxes checks that the observed results of an inbox are linearizable. Each event is new
// once, is claimed again only after its claim has ended, and only its last claim decides the
// outcome. Meanwhile processes are killed and paused, their connections are cut and their calls
// time out. Four processes share riverinbox. One process at a time uses sqlinbox.
func TestInboxes(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for name, of := range map[string]struct {
		processes       int
		source          func(*testing.T) string
		takeOver, pause time.Duration
	}{
		"riverinbox": {processes, func(t *testing.T) string { return postgrestest.Schema(t) }, riverTakeOver, riverPause},
		"sqlinbox":   {1, func(t *testing.T) string { return filepath.Join(t.TempDir(), "inbox.db") }, 0, 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worker{Kind: kindInbox, Database: database{Source: of.source(t)}}
			f := newFleet(t, of.processes, w, of.pause)
			r := report{outcomes: map[string]int{}}
			for calls := 0; calls < testsize.Of(800, 50_000); calls += of.processes * inboxCalls {
				r.rounds++
				f.play(t, r.rounds)
			}
			f.drain(t)
			r.addInbox(t, f.notes(), of.takeOver)
			assert.Empty(t, r.wrong)
			t.Log(r, f.faults)
		})
	}
}

// addInbox reads the recorded calls of an inbox and checks the history of each event.
func (r *report) addInbox(t *testing.T, lines []string, takeOver time.Duration) {
	t.Helper()
	var recorded []inboxCall
	results := map[string]inboxResult{}
	for _, line := range lines {
		var call inboxCall
		var result inboxResult
		switch {
		case !strings.HasSuffix(line, "}"): // incomplete, because its process was killed
		case strings.Contains(line, `"Op":`):
			require.NoError(t, json.Unmarshal([]byte(line), &call))
			recorded = append(recorded, call)
		default:
			require.NoError(t, json.Unmarshal([]byte(line), &result))
			results[result.ID] = result
		}
	}
	for _, call := range recorded {
		result, returned := results[call.ID]
		outcome := result.Err
		switch {
		case call.Op != opClaim && !returned:
			outcome = errUnknown
		case call.Op == opAccept && result.N == 1:
			outcome = "duplicate"
		case result.Returned:
			outcome = "returned"
		}
		if call.Op != opLapse {
			r.calls++
		}
		r.outcomes[strings.TrimSpace(call.Op+" "+outcome)]++
	}
	for event, history := range eventHistories(recorded, results, takeOver) {
		r.longest = max(r.longest, len(history))
		if porcupine.CheckOperationsTimeout(inboxModel, history, 2*time.Minute) != porcupine.Ok {
			r.wrong = append(r.wrong, event+" is not linearizable:\n"+describe(history))
		}
	}
}

// inboxMutants returns mistakes that TestInboxes must find.
func inboxMutants() []*mutant.Mutant {
	const outcome = "UPDATE dispensary_inbox SET state = ?, due_at = ?, "
	return []*mutant.Mutant{
		{Name: "event is claimed twice", Rewrite: in("attempts = attempts + 1", `SET state = 4`, `SET state = 3`)},
		{Name: "attempts are not counted", Rewrite: in("SET state = 4", `attempts = attempts \+ 1`, `attempts = attempts + 0`)},
		{Name: "handled event runs again", Rewrite: in(outcome+"reason = NULL", `SET state = \?`, `SET state = ? - 3`)},
		{Name: "dead letters vanish", Rewrite: in(outcome+"attempts = ?, reason = ?", `SET state = \?`, `SET state = ? + 1`)},
		{Name: "Replay replays handled events", Rewrite: in("reason = NULL WHERE seq IN", `\+state = 5`, `+state >= 5`)},
		{Name: "Discard keeps the dead letter", Rewrite: in("request_ids = NULL WHERE seq IN", `SET state = 6`, `SET state = 5`)},
		{Name: "repeat is new", Rewrite: in("INSERT INTO dispensary_inbox", `DO NOTHING`, `DO UPDATE SET received_at = received_at`)},
	}
}

// TestInboxMutants checks that the histories of sqlinbox with each mistake are not linearizable,
// and logs the number of rounds until then.
func TestInboxMutants(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, m := range inboxMutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			var r report
			var play func(int) []string
			for len(r.wrong) == 0 {
				require.Less(t, r.rounds, 1000, "mistake not found: %s", r)
				if r.rounds%20 == 0 { // limits the number of calls checked in each round
					play = inboxInProcess(t, m)
				}
				lines := play(r.rounds)
				r = report{rounds: r.rounds + 1, outcomes: map[string]int{}}
				r.addInbox(t, lines, 0)
			}
			require.Positive(t, m.Applied())
			t.Logf("found in round %d", r.rounds)
		})
	}
}

// riverMutants returns mistakes that TestInboxes must find in riverinbox.
func riverMutants() []*mutant.Mutant {
	return []*mutant.Mutant{
		{Name: "outcome ignores the claim", Rewrite: inFunction(` AND j.state = 'running' AND j.attempted_at = o.at`, ``)},
		{Name: "outcome ignores the attempt", Rewrite: inFunction(` AND j.attempted_at = o.at`, ``)},
		{Name: "claim is stolen", Rewrite: inFunction(`inbox_worker w WHERE`, `$0 w.beats < 0 AND`)},
		{Name: "abandoned attempts are not counted", Rewrite: inFunction(`scheduled_at = clock_timestamp\(\),\s+metadata`, `attempt = j.attempt - 1, $0`)},
		{Name: "repeat is new", Rewrite: inFunction(`(?s) AND NOT EXISTS \(SELECT FROM \S+inbox_ledger l WHERE l.digest = e.digest\)(.*?FROM fresh f)`, `$1 ON CONFLICT DO NOTHING`)},
		{Name: "Discard keeps the dead letter", Rewrite: in("WITH gone AS", `(?s)DELETE (FROM \S+river_job WHERE .*\)) RETURNING id`, `SELECT id $1`)},
	}
}

// inFunction returns a mistake in functions of the schema. Open accepts the changed functions.
func inFunction(pattern, replacement string) func(string) string {
	of, digest := regexp.MustCompile(pattern), regexp.MustCompile(` AND md5\(p\.prosrc\) = '\w+'`)
	return func(query string) string {
		if strings.Contains(query, "FUNCTION") {
			return of.ReplaceAllString(query, replacement)
		}
		return digest.ReplaceAllString(query, "")
	}
}

// TestRiverMutants checks that the histories of riverinbox with each mistake are not linearizable,
// and logs the number of rounds until then.
func TestRiverMutants(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, m := range riverMutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			w := worker{Kind: kindInbox, Mutant: m.Name, Database: database{Source: postgrestest.Schema(t)}}
			f := newFleet(t, processes, w, riverPause)
			f.chosen = []fault{faultPause} // the mistakes concern the end of leases
			var lines []string
			r := report{}
			for len(r.wrong) == 0 {
				require.Less(t, r.rounds, 500, "mistake not found: %s", r)
				for rounds := r.rounds; r.rounds < rounds+5; {
					r.rounds++
					f.play(t, r.rounds)
				}
				f.drain(t)
				lines = append(lines, f.notes()...)
				r = report{rounds: r.rounds, outcomes: map[string]int{}}
				r.addInbox(t, lines, riverTakeOver)
			}
			t.Logf("found in round %d, call %d", r.rounds, r.calls)
		})
	}
}

// inboxInProcess returns a function that plays a round in this process. It returns the recorded
// lines of this and all earlier rounds.
func inboxInProcess(t *testing.T, m *mutant.Mutant) func(round int) []string {
	t.Helper()
	dsn, err := sqlinbox.DSN(filepath.Join(t.TempDir(), "inbox.db"))
	require.NoError(t, err)
	db, err := m.Open("sqlite", dsn)
	require.NoError(t, err)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	var notes bytes.Buffer
	p := &inboxPlayer{name: "p", slow: 5 * time.Millisecond, events: 3, history: &history{out: &notes}}
	p.inbox, err = sqlinbox.New(db, sqlinbox.Config{Seal: receivertest.KeyRing(t), Work: p.work()})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.inbox.Close(context.Background()))
		assert.NoError(t, db.Close())
	})
	return func(round int) []string {
		p.play("p", round+1, rand.Uint64())
		p.history.mu.Lock()
		defer p.history.mu.Unlock()
		return strings.Split(notes.String(), "\n")
	}
}
