//go:build unix

package histories_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/lab/mutant"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// report is the result of checking histories.
type report struct {
	rounds, calls int
	outcomes      map[string]int // by call and error
	longest       int            // length of the longest history
	wrong         []string
}

func (r report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls in %d rounds, longest history %d calls; ", r.calls, r.rounds, r.longest)
	for _, outcome := range slices.Sorted(maps.Keys(r.outcomes)) {
		fmt.Fprintf(&b, "%s %d, ", outcome, r.outcomes[outcome])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// add reads the recorded calls of a round and checks the history of each user.
func (r *report) add(t *testing.T, lines []string) {
	t.Helper()
	var recorded []tokenCall
	results := map[string]tokenResult{}
	for _, line := range lines {
		var call tokenCall
		var result tokenResult
		switch {
		case strings.Contains(line, `"Op":`):
			require.NoError(t, json.Unmarshal([]byte(line), &call))
			recorded = append(recorded, call)
		case strings.HasSuffix(line, "}"): // other lines are incomplete, because their process was killed
			require.NoError(t, json.Unmarshal([]byte(line), &result))
			results[result.ID] = result
		}
	}
	r.rounds++
	for _, call := range recorded {
		outcome := errUnknown
		if result, returned := results[call.ID]; returned {
			outcome = result.Err
		}
		r.calls++
		r.outcomes[strings.TrimSpace(call.Op+" "+outcome)]++
	}
	for user, history := range histories(recorded, results) {
		r.longest = max(r.longest, len(history))
		if porcupine.CheckOperationsTimeout(tokenModel, history, 2*time.Minute) != porcupine.Ok {
			r.wrong = append(r.wrong, user+" is not linearizable:\n"+describe(history))
		}
	}
}

// describe returns a history with one line per call, in the order of their starts.
func describe(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(min(1, max(-1, a.Call-b.Call))) })
	var b strings.Builder
	for _, o := range history {
		took := "?"
		if o.Return < math.MaxInt64 {
			took = time.Duration(o.Return - o.Call).String()
		}
		fmt.Fprintf(&b, "%12s +%-10s %+v -> %+v\n", time.Duration(o.Call-history[len(history)-1].Call), took, o.Input, o.Output)
	}
	return b.String()
}

// TestTokens checks that the observed results of a token store are linearizable. Four processes
// use the store. Meanwhile they are killed and paused, their connections are cut and their calls
// time out.
func TestTokens(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, dialect := range []string{postgreSQL, mySQL, sqlite} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, processes, worker{Kind: kindTokens, Database: newDatabase(t, dialect)}, 60*time.Millisecond)
			r := report{outcomes: map[string]int{}}
			for r.calls < testsize.Of(600, 30_000) {
				f.play(t, r.rounds)
				r.add(t, f.notes())
				if !assert.Empty(t, r.wrong) {
					break
				}
			}
			t.Log(r, f.faults)
		})
	}
}

// tokenMutants returns mistakes that TestTokens must find.
func tokenMutants() []*mutant.Mutant {
	return []*mutant.Mutant{
		{Name: "lease is taken from its owner", Rewrite: in("AND (lease_owner", `\(lease_owner = '' OR`, `(lease_owner <> '#' OR`)},
		{Name: "lease ignores the version", Rewrite: in("AND (lease_owner", ` AND version = (\?|\$\d+) AND`, ` AND (version = $1 OR true) AND`)},
		{Name: "lease expires early", Rewrite: in("SET lease_owner", `(lease_until = .+? \+ )(\?|\$\d+)`, `$1 $2/1000`)},
		{Name: "Commit ignores the lease", Rewrite: in("SET state = 'active'", `lease_owner = (\?|\$\d+)`, `(lease_owner = $1 OR true)`)},
		{Name: "Commit ignores version and lease", Rewrite: in("SET state = 'active'", `version = (\?|\$\d+) AND lease_owner = (\?|\$\d+)`, `(version = $1 OR lease_owner = $2 OR true)`)},
		{Name: "Commit leaves the lease", Rewrite: in("SET state = 'active'", `lease_owner = '', lease_until = 0`, `lease_owner = lease_owner`)},
		{Name: "Save leaves the lease", Rewrite: in("ON CONFLICT", `lease_owner = '', lease_until = 0`, `lease_owner = lease_owner`)},
		{Name: "Fail ignores the lease", Rewrite: in("SET state = 'reauthorize'", `lease_owner = (\?|\$\d+)`, `(lease_owner = $1 OR true)`)},
		{Name: "Release releases any lease", Rewrite: in("SET lease_owner = ''", `lease_owner = (\?|\$\d+)`, `(lease_owner = $1 OR true)`)},
		{Name: "DeleteVersion deletes any version", Rewrite: in("DELETE", `version = (\?|\$\d+)`, `(version = $1 OR true)`)},
		{Name: "write keeps the version", Rewrite: in("UPDATE", `version = \w+\(\w+\.version \+ 1, (.+?)\), lease`, `version = 1 + 0 * $1, lease`)},
		{Name: "ClaimDue returns leased records", Rewrite: in("MATERIALIZED", `\(lease_owner = '' OR`, `(lease_owner <> '#' OR`)},
		{Name: "ClaimDue returns records to authorize again", Rewrite: in("MATERIALIZED", `state = 'active'`, `state <> ''`)},
	}
}

// in returns a function that replaces the matches of a pattern in statements that contain text.
func in(text, pattern, replacement string) func(string) string {
	of := regexp.MustCompile(pattern)
	return func(query string) string {
		if !strings.Contains(query, text) {
			return query
		}
		return of.ReplaceAllString(query, replacement)
	}
}

// TestTokenMutants checks that the histories with each mistake are not linearizable, and logs the
// number of rounds until then.
func TestTokenMutants(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, m := range tokenMutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			playMutant(t, newDatabase(t, sqlite), m)
		})
	}
	for _, dialect := range []string{postgreSQL, mySQL} {
		for _, m := range []*mutant.Mutant{
			tokenMutants()[0],
			{Name: "ClaimDue does not lock", Rewrite: in("SELECT", " FOR UPDATE SKIP LOCKED", "")},
		} {
			t.Run(dialect+"/"+m.Name, func(t *testing.T) {
				t.Parallel()
				playMutant(t, newDatabase(t, dialect), m)
			})
		}
	}
}

// playMutant plays rounds in this process until it finds the mistake.
func playMutant(t *testing.T, d database, m *mutant.Mutant) {
	t.Helper()
	r := report{outcomes: map[string]int{}}
	for play := inProcess(t, d, m); len(r.wrong) == 0; {
		require.Less(t, r.rounds, 5000, "mistake not found: %s", r)
		r.add(t, play(r.rounds))
	}
	require.Positive(t, m.Applied())
	t.Logf("found in round %d, call %d", r.rounds, r.calls)
}

// inProcess returns a function that plays a round of all processes in this process.
func inProcess(t *testing.T, d database, m *mutant.Mutant) func(round int) []string {
	t.Helper()
	source := d.Source
	if d.Dialect == sqlite {
		source = "file:" + source + "?_pragma=busy_timeout(50)&_pragma=journal_mode(wal)&_txlock=immediate"
	}
	var stores [processes]tokenstore.Store
	for n := range stores {
		db, err := m.Open(drivers[d.Dialect], source)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		stores[n], err = d.store(db)
		require.NoError(t, err)
	}
	return func(round int) []string {
		var all sync.WaitGroup
		var notes bytes.Buffer
		h := &history{out: &notes}
		for n, store := range stores {
			all.Go(func() { playTokens(store, h, fmt.Sprint("p", n), round, rand.Uint64()) })
		}
		all.Wait()
		return strings.Split(notes.String(), "\n")
	}
}
