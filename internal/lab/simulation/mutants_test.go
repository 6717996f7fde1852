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

// mutant is a deliberate mistake. It replaces a text that occurs once in a file.
type mutant struct {
	name     string
	file     string
	old, new string
	test     string // test that must find it
}

var mutants = []mutant{
	{"Commit ignores version and owner", "oauth/tokenstore/memory.go",
		"if !row.leasedBy(lease) {\n\t\t\treturn ErrConflict\n\t\t}\n\t\ts.write(row, token,", "s.write(row, token,", "TestTokens"},
	{"Fail ignores version and owner", "oauth/tokenstore/memory.go",
		"if !row.leasedBy(lease) {\n\t\t\treturn ErrConflict\n\t\t}\n\t\ts.write(row, row.record.Token,", "s.write(row, row.record.Token,", "TestTokens"},
	{"two replicas get a lease", "oauth/tokenstore/memory.go",
		"case row.owner != \"\" && row.owner != lease.Owner && now.Before(row.until):", "case false:", "TestTokens"},
	{"leases never expire", "oauth/tokenstore/memory.go",
		"row.owner, row.until = lease.Owner, now.Add(ttl)", "row.owner, row.until = lease.Owner, now.Add(10000*ttl)", "TestTokens"},
	{"pair is used before it is stored", "oauth/tokens/commit.go",
		"return c.awaitCommit(pending)\n}\n\n// awaitPendingCommit", "_ = pending\n\tused := leased.Record\n\tused.Token = p.token\n\treturn used, nil\n}\n\n// awaitPendingCommit", "TestTokens"},
	{"pair is dropped if not stored", "oauth/tokens/commit.go",
		"for try := 1; isStoreError(err); try++ {", "for try := 1; isStoreError(err) && try < 2; try++ {", "TestTokens"},
	{"pair replaces a newer one", "oauth/tokens/commit.go",
		"if !p.succeeds(record) {", "if false {", "TestTokens"},
	{"replica refreshes without a lease", "oauth/tokens/record.go",
		"if err != nil || time.Since(l.since) <= c.config.answerTime() {\n\t\t\treturn l, err", "if errors.Is(err, tokenstore.ErrLeased) {\n\t\t\tl.Record, err = record, nil\n\t\t}\n\t\tif err != nil || time.Since(l.since) <= c.config.answerTime() {\n\t\t\treturn l, err", "TestTokens"},
	{"pair keeps a mark", "oauth/tokens/commit.go",
		"(record.State != tokenstore.StateActive || record.Token.AccessToken == p.old.Token.AccessToken)", "record.State == tokenstore.StateActive && record.Token.AccessToken == p.old.Token.AccessToken", "TestTokens"},
	{"every failure of the token endpoint marks the user", "oauth/tokens/circuit.go",
		"return errors.As(err, &answer) && answer.Code == \"invalid_grant\"", "return errors.As(err, &answer)", "TestTokens"},
	{"slow inbox counts as success", "webhook/handler.go",
		"default:\n\t\t\treturn o.unavailable(ErrInboxTimeout)", "default:\n\t\t\treturn o", "TestEvents"},
	{"failing inbox counts as success", "webhook/handler.go",
		"if err != nil {\n\t\t\treturn o.unavailable(inboxError(ctx, err))\n\t\t}\n\tcase <-ctx.Done():", "_ = err\n\tcase <-ctx.Done():", "TestEvents"},
	{"only the first secret is valid", "webhook/verifier.go",
		"for _, k := range v.keys {", "for _, k := range v.keys[:1] {", "TestEvents"},
	{"future timestamp is valid", "webhook/signature.go",
		"case age < -tolerance:", "case false:", "TestEvents"},
	{"batch stores only its first write", "internal/inboxkit/batcher.go",
		"\t\tb.config.Commit(live)\n", "\t\tb.config.Commit(live[:1])\n\t\tfor _, w := range live[1:] {\n\t\t\tw.Done(nil)\n\t\t}\n", "TestEvents"},
	{"handler error counts as success", "internal/inboxkit/worker.go",
		"case a.Err == nil:\n", "case true:\n", "TestEvents"},
	{"outcomes are not recorded", "internal/inboxkit/worker.go",
		"\terr := record(a)\n", "\tvar err error\n\tif a.Result == webhook.ResultFailed {\n\t\terr = record(a)\n\t}\n", "TestEvents"},
	{"event is dead after the first failure", "internal/inboxkit/worker.go",
		"case a.Number >= w.work.Retry.MaxAttempts:", "case a.Number >= 1:", "TestEvents"},
	{"event is dead after a handler timeout", "internal/inboxkit/worker.go",
		"case webhook.IsPermanent(a.Err):", "case webhook.IsPermanent(a.Err) || errors.Is(a.Err, context.DeadlineExceeded):", "TestEvents"},
	{"events of one key run concurrently", "webhook/memoryinbox/inbox.go",
		"if q.taken || len(q.entries) == 0 ||", "if len(q.entries) == 0 ||", "TestEvents"},
	{"keys of handled events are forgotten", "webhook/memoryinbox/inbox.go",
		"\ti.finished.put(e.delivery.Key, engine.Finished{Discarded: discarded, At: time.Now().UTC()})\n", "", "TestEvents"},
	{"checkpoint forgets unrecovered events", "webhook/reconcile/checkpoint.go",
		"\tc.Retries = retries\n", "", "TestEvents"},
	{"unreadable event counts as gone", "webhook/reconcile/retries.go",
		"\treturn age > retention && (", "\treturn age > 0 || (", "TestEvents"},
	{"checkpoint passes an incomplete list", "webhook/reconcile/checkpoint.go",
		"p.Through = newest(p.Through, at, now)", "p.Through = now.Add(24 * time.Hour)", "TestEvents"},
	{"writes are repeated like reads", "internal/transport/retry.go",
		"(read || unsent(err, &s.trace))", "true", "TestWrites"},
	{"503 of a gateway repeats a write", "internal/transport/retry.go",
		"\treturn s.answer.refusedForNow()\n", "\treturn response.StatusCode == http.StatusServiceUnavailable || s.answer.refusedForNow()\n", "TestWrites"},
	{"Ensure creates without a search", "internal/transport/ensure.go",
		"if value, err = e.find(ctx); err != nil || value != nil {\n\t\treturn value, false, err", "if value, err = e.find(ctx); err != nil {\n\t\treturn value, false, err", "TestWrites"},
	{"lost response of a write is ignored", "internal/transport/ensure.go",
		"value, lookErr := e.look(ctx)\n", "value, lookErr := e.create(ctx)\n", "TestWrites"},
	{"integration of a clinic is never read again", "oauth/accounts/clinic.go",
		"if known.Clinic.IntegrationID != \"\" && time.Since(known.ConnectedAt) < clinicKnown {", "if known.Clinic.IntegrationID != \"\" {", "TestWhole"},
	{"failed run of a clinic is never retried", "webhook/reconcile/stats.go",
		"if wait := first.Next.Sub(c.config.Now()); wait > 0 {", "if wait := max(first.Next.Sub(c.config.Now()), minPause); wait > 0 {", "TestWhole"},
	{"only one pass over the clinics runs", "internal/rotation/rotation.go",
		"since >= 0 && since < interval {", "since >= 0 {", "TestWhole"},
	{"clinic is written with the token before the lease", "oauth/tokens/record.go",
		"before, written tokenstore.Record, err error) {\n\tleased, err := c.waitForLease(ctx, key)\n", "before, written tokenstore.Record, err error) {\n\tstale, _ := c.store.Load(ctx, key)\n\tleased, err := c.waitForLease(ctx, key)\n\tleased.Record = stale\n", "TestWhole"},
	{"handler has no timeout", "internal/inboxkit/worker.go",
		"ctx, cancel := context.WithTimeout(ctx, w.work.HandlerTimeout)", "ctx, cancel := context.WithTimeout(ctx, 1000*w.work.HandlerTimeout)", "TestWhole"},
}

// A violation contains its seed. A panic in another goroutine ends the run without one.
var (
	seedOf  = regexp.MustCompile(`seed (\d+): (.*)`)
	panicOf = regexp.MustCompile(`panic: (.*)`)
)

// TestMutants plants each mistake into the code with an overlay of its file, and requires that the
// schedules find it. Each mistake needs a build. The small size only checks that the mistakes
// still fit the code.
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

// plant returns the path of the file and its text with the mistake.
func (m mutant) plant(t *testing.T) (path, changed string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, m.file))
	require.NoError(t, err)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), m.old), "the replaced text must occur once in %s: update the mutant after a change of the code", m.file)
	return path, strings.Replace(string(source), m.old, m.new, 1)
}

// find returns the number of schedules until the mistake is found, and the violation.
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
	if !assert.True(t, errors.As(err, &exit), "none of %d schedules finds the mistake: %v\n%s", most, err, out) {
		return "none", ""
	}
	found := seedOf.FindSubmatch(out)
	if panicked := panicOf.FindSubmatch(out); found == nil && panicked != nil {
		return "a panic", string(panicked[1])
	}
	require.NotNil(t, found, "%s", out)
	return string(found[1]), string(found[2])
}
