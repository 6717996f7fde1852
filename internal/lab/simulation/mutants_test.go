package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// mutant is a deliberate fault: a text of a file that is there once, and what is put in its
// place.
type mutant struct {
	name     string
	file     string
	old, new string
	test     string // that has to notice
}

var mutants = []mutant{
	{"Commit looks at neither version nor owner", "oauth/tokenstore/memory.go",
		"if !row.leasedBy(lease) {\n\t\t\treturn ErrConflict\n\t\t}\n\t\ts.write(row, token,", "s.write(row, token,", "TestTokens"},
	{"Fail looks at neither version nor owner", "oauth/tokenstore/memory.go",
		"if !row.leasedBy(lease) {\n\t\t\treturn ErrConflict\n\t\t}\n\t\ts.write(row, row.record.Token,", "s.write(row, row.record.Token,", "TestTokens"},
	{"a lease is given to two", "oauth/tokenstore/memory.go",
		"case row.owner != \"\" && row.owner != lease.Owner && now.Before(row.until):", "case false:", "TestTokens"},
	{"leases do not end", "oauth/tokenstore/memory.go",
		"row.owner, row.until = lease.Owner, now.Add(ttl)", "row.owner, row.until = lease.Owner, now.Add(10000*ttl)", "TestTokens"},
	{"a pair is used before it is stored", "oauth/tokens/commit.go",
		"return c.awaitCommit(pending)\n}\n\n// awaitPendingCommit", "_ = pending\n\tused := leased.Record\n\tused.Token = p.token\n\treturn used, nil\n}\n\n// awaitPendingCommit", "TestTokens"},
	{"a pair that is not stored is given up", "oauth/tokens/commit.go",
		"for try := 1; isStoreError(err); try++ {", "for try := 1; isStoreError(err) && try < 2; try++ {", "TestTokens"},
	{"a pair goes over what came meanwhile", "oauth/tokens/commit.go",
		"if !p.succeeds(record) {", "if false {", "TestTokens"},
	{"a replica refreshes without a lease", "oauth/tokens/record.go",
		"if err != nil || time.Since(l.since) <= c.config.answerTime() {\n\t\t\treturn l, err", "if errors.Is(err, tokenstore.ErrLeased) {\n\t\t\tl.Record, err = record, nil\n\t\t}\n\t\tif err != nil || time.Since(l.since) <= c.config.answerTime() {\n\t\t\treturn l, err", "TestTokens"},
	{"a pair does not bring a marked user back", "oauth/tokens/commit.go",
		"(record.State != tokenstore.StateActive || record.Token.AccessToken == p.old.Token.AccessToken)", "record.State == tokenstore.StateActive && record.Token.AccessToken == p.old.Token.AccessToken", "TestTokens"},
	{"every failure of the token endpoint marks", "oauth/tokens/circuit.go",
		"return errors.As(err, &answer) && answer.Code == \"invalid_grant\"", "return errors.As(err, &answer)", "TestTokens"},
	{"an inbox that takes too long counts as done", "webhook/handler.go",
		"default:\n\t\t\treturn o.unavailable(ErrInboxTimeout)", "default:\n\t\t\treturn o", "TestEvents"},
	{"an inbox that fails counts as done", "webhook/handler.go",
		"if err != nil {\n\t\t\treturn o.unavailable(inboxError(ctx, err))\n\t\t}\n\tcase <-ctx.Done():", "_ = err\n\tcase <-ctx.Done():", "TestEvents"},
	{"only the first secret counts", "webhook/verifier.go",
		"for _, k := range v.keys {", "for _, k := range v.keys[:1] {", "TestEvents"},
	{"a timestamp may be of the future", "webhook/signature.go",
		"case age < -tolerance:", "case false:", "TestEvents"},
	{"a batch stores its first write only", "internal/inboxkit/batcher.go",
		"\t\tb.config.Commit(live)\n", "\t\tb.config.Commit(live[:1])\n\t\tfor _, w := range live[1:] {\n\t\t\tw.Done(nil)\n\t\t}\n", "TestEvents"},
	{"a handler's error is success", "internal/inboxkit/worker.go",
		"case a.Err == nil:\n", "case true:\n", "TestEvents"},
	{"outcomes are not recorded", "internal/inboxkit/worker.go",
		"\terr := record(a)\n", "\tvar err error\n\tif a.Result == webhook.ResultFailed {\n\t\terr = record(a)\n\t}\n", "TestEvents"},
	{"an event is given up at the first failure", "internal/inboxkit/worker.go",
		"case a.Number >= w.work.Retry.MaxAttempts:", "case a.Number >= 1:", "TestEvents"},
	{"an event is given up when its handler takes too long", "internal/inboxkit/worker.go",
		"case webhook.IsPermanent(a.Err):", "case webhook.IsPermanent(a.Err) || errors.Is(a.Err, context.DeadlineExceeded):", "TestEvents"},
	{"events of one key are handled at the same time", "webhook/memoryinbox/inbox.go",
		"if q.taken || len(q.entries) == 0 ||", "if len(q.entries) == 0 ||", "TestEvents"},
	{"keys of handled events are forgotten", "webhook/memoryinbox/inbox.go",
		"\ti.finished.put(e.delivery.Key, engine.Finished{Discarded: discarded, At: time.Now().UTC()})\n", "", "TestEvents"},
	{"the checkpoint forgets what could not be recovered", "webhook/reconcile/checkpoint.go",
		"\tc.Retries = retries\n", "", "TestEvents"},
	{"what cannot be read counts as gone", "webhook/reconcile/retries.go",
		"\treturn age > retention && (", "\treturn age > 0 || (", "TestEvents"},
	{"the checkpoint moves to now although lists were broken off", "webhook/reconcile/checkpoint.go",
		"p.Through = newest(p.Through, at, now)", "p.Through = now.Add(24 * time.Hour)", "TestEvents"},
	{"writes are repeated like reads", "internal/transport/retry.go",
		"(read || unsent(err, &s.trace))", "true", "TestWrites"},
	{"a 503 of something on the way repeats a write", "internal/transport/retry.go",
		"\treturn s.answer.refusedForNow()\n", "\treturn response.StatusCode == http.StatusServiceUnavailable || s.answer.refusedForNow()\n", "TestWrites"},
	{"Ensure creates without a look", "internal/transport/ensure.go",
		"if value, err = e.find(ctx); err != nil || value != nil {\n\t\treturn value, false, err", "if value, err = e.find(ctx); err != nil {\n\t\treturn value, false, err", "TestWrites"},
	{"a lost answer of a write is no lost answer", "internal/transport/ensure.go",
		"value, lookErr := e.look(ctx)\n", "value, lookErr := e.create(ctx)\n", "TestWrites"},
	{"the integration of a clinic is never asked for again", "oauth/accounts/clinic.go",
		"if known.Clinic.IntegrationID != \"\" && time.Since(known.ConnectedAt) < clinicKnown {", "if known.Clinic.IntegrationID != \"\" {", "TestWhole"},
	{"a clinic whose run failed is never tried again", "webhook/reconcile/stats.go",
		"if wait := first.Next.Sub(c.config.Now()); wait > 0 {", "if wait := max(first.Next.Sub(c.config.Now()), minPause); wait > 0 {", "TestWhole"},
	{"a pass over the clinics is the last", "internal/rotation/rotation.go",
		"since >= 0 && since < interval {", "since >= 0 {", "TestWhole"},
	{"the clinic is written beside the token of before the lease", "oauth/tokens/record.go",
		"before, written tokenstore.Record, err error) {\n\tleased, err := c.waitForLease(ctx, key)\n", "before, written tokenstore.Record, err error) {\n\tstale, _ := c.store.Load(ctx, key)\n\tleased, err := c.waitForLease(ctx, key)\n\tleased.Record = stale\n", "TestWhole"},
	{"a handler takes as long as it likes", "internal/inboxkit/worker.go",
		"ctx, cancel := context.WithTimeout(ctx, w.work.HandlerTimeout)", "ctx, cancel := context.WithTimeout(ctx, 1000*w.work.HandlerTimeout)", "TestWhole"},
}

// A violation names its seed; a panic of a goroutine ends the run without it.
var (
	seedOf  = regexp.MustCompile(`seed (\d+): (.*)`)
	panicOf = regexp.MustCompile(`panic: (.*)`)
)

// TestMutants plants each fault into the code, by an overlay of its file, and demands that
// the schedules find it. Each takes a build: small, it only holds that the faults still fit
// the code.
func TestMutants(t *testing.T) {
	var table strings.Builder
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			path, changed := m.plant(t)
			if !testsize.Full() {
				return
			}
			took, what := m.find(t, path, changed, 20_000)
			fmt.Fprintf(&table, "| %s | `%s` | `%s` | %s | %s |\n", m.name, m.file, m.test, took, what)
		})
	}
	if testsize.Full() {
		t.Logf("schedules until found:\n%s", table.String())
	}
}

const root = "../../.."

// plant returns the path of the file, and its text with the fault in it.
func (m mutant) plant(t *testing.T) (path, changed string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, m.file))
	require.NoError(t, err)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), m.old), "the text has to be there once in %s: the mutant follows the code", m.file)
	return path, strings.Replace(string(source), m.old, m.new, 1)
}

// find returns how many schedules it took to find the mutant, and what was broken.
func (m mutant) find(t *testing.T, path, changed string, most int) (took, what string) {
	t.Helper()
	dir := t.TempDir()
	file, overlay, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary, "./internal/lab/simulation")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.CommandContext(ctx, binary, "-test.run", "^"+m.test+"$", "-schedules", fmt.Sprint(most))
	out, err = run.CombinedOutput()
	var exit *exec.ExitError
	if !assert.True(t, errors.As(err, &exit), "no schedule of %d notices: %v\n%s", most, err, out) {
		return "none", ""
	}
	found := seedOf.FindSubmatch(out)
	if panicked := panicOf.FindSubmatch(out); found == nil && panicked != nil {
		return "a panic", string(panicked[1])
	}
	require.NotNil(t, found, "%s", out)
	return string(found[1]), string(found[2])
}
