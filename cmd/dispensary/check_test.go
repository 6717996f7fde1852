package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/internal/testkit/mistakes"
	"github.com/dispensary-go/dispensary/webhook"
)

// checkFixture returns a machine with the secrets of an endpoint in variables.
func checkFixture(t *testing.T) *fixture {
	t.Helper()
	f := bare(t)
	f.variables = map[string]string{"WEBHOOK_SECRET": mistakes.Secret, "WEBHOOK_CHALLENGE": mistakes.Challenge}
	return f
}

// checks returns the arguments for an endpoint with the secrets of the fixture.
func checks(url string, more ...string) []string {
	return append([]string{"check", "--secret-env", "WEBHOOK_SECRET", "--challenge-env", "WEBHOOK_CHALLENGE", url}, more...)
}

// serve serves a handler, without logging its panics.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// hooksOf serves hooks. It ignores repeated calls of a hook with the same value.
func hooksOf(t *testing.T, hooks receivercheck.Hooks) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /handled", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, hooks.Handled(r.FormValue("event_id")))
	})
	for path, hook := range map[string]func(bool){"/block_handler": hooks.BlockHandler, "/break_storage": hooks.BreakStorage} {
		was := false
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			if on := r.FormValue("on") == "true"; on != was {
				was = on
				hook(on)
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	return serve(t, mux)
}

// checked serves an endpoint with every hook and returns the arguments that check it.
func (f *fixture) checked(breaks mistakes.Mutation) []string {
	t := f.t
	logs, err := os.Create(filepath.Join(f.folder, "server.log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = logs.Close() })
	s := mistakes.New(t, func(c *webhook.HandlerConfig) {
		c.Logger, c.BodyTimeout = slog.New(slog.NewJSONHandler(logs, nil)), mistakes.Patience
	})
	target := s.Target(s)
	breaks(s, &target)
	if target.URL == "" {
		target.URL = serve(t, target.Handler)
	}
	f.variables["WEBHOOK_SECRET"] = target.Secret + " " + target.Features.OldSecret
	args := checks(
		target.URL, "--other-envelopes", "--log", logs.Name(), "--hooks", hooksOf(t, target.Hooks), "--timeout", target.Timing.Timeout.String(),
		"--patience", target.Timing.Patience.String(), "--body-timeout", target.Timing.BodyTimeout.String(),
	)
	if target.Features.UnsignedProbe {
		args = append(args, "--unsigned-probe")
	}
	unconfigured := "http://" + freeAddress(t) // unreachable
	if handler, err := target.Hooks.WithoutSecret(); err == nil {
		unconfigured = serve(t, handler)
	}
	return append(args, "--without-secret", unconfigured)
}

// rowsFor decodes the report of a check.
func rowsFor(t *testing.T, out string) (rows []doctor.Row) {
	t.Helper()
	require.Equal(t, 1, assertDocuments(t, "check", out), out)
	require.NoError(t, json.Unmarshal([]byte(out), &struct{ Rows *[]doctor.Row }{&rows}))
	return rows
}

// Every mistake is tested in receivercheck. These show themselves only with a flag.
func TestCheckFindsMistakesWithFlags(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"secret in the log", "unsigned probes rejected", "connections never end"} {
		f, m := checkFixture(t), mistakes.All[name]
		code, out, stderr := f.run(append(f.checked(m.Breaks), "--json", "--run", "^"+m.Case+"$")...)
		assert.Equal(t, exitFailed, code, stderr)
		rows := rowsFor(t, out)
		last := rows[len(rows)-1]
		assert.Equal(t, []any{m.Case, doctor.StatusFail}, []any{last.Check, last.Status})
		assert.Contains(t, last.Seen, m.Says)
		for _, hidden := range []string{mistakes.Secret, mistakes.OldSecret, mistakes.Challenge, "Target."} {
			assert.NotContains(t, out+stderr, hidden)
		}
	}
}

// With the flags of all hooks, only the case with a body timeout is skipped.
func TestCheckPassesCorrectEndpoint(t *testing.T) {
	t.Parallel()
	f := checkFixture(t)
	code, out, stderr := f.run(append(f.checked(func(*mistakes.Endpoint, *receivercheck.Target) {}), "--json")...)
	assert.Equal(t, exitDone, code, stderr)
	rows := rowsFor(t, out)
	assert.Len(t, rows, 44)
	for _, row := range rows {
		if row.Check == "Bodies/SlowLoris" {
			assert.Equal(t, "needs --body-timeout", row.Seen)
			continue
		}
		assert.Equal(t, doctor.StatusPass, row.Status, "%v", row)
	}
}

// Without hooks, skipped cases name the missing flags.
func TestCheckPrintsTable(t *testing.T) {
	t.Parallel()
	f := checkFixture(t)
	f.terminal = true
	s := mistakes.New(t)
	target := s.Target(s)
	mistakes.All["410"].Breaks(s, &target)
	report := filepath.Join(f.folder, "report.xml")
	code, out, stderr := f.run(checks(serve(t, target.Handler), "--junit", report)...)
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "dispensary: 1 check failed\n", stderr)
	for _, want := range []string{
		": 33 passed, 0 warn, 1 failed, 10 skipped\n\n\x1b[32mpass\x1b[0m  Signature/Valid\n",
		"\n\x1b[31mfail\x1b[0m  Always/NeverGone ", " fix: never respond with 410",
		"\n\x1b[2mskip\x1b[0m  Signature/Replayed       needs the hook handled of --hooks\n", "needs --without-secret\n",
	} {
		assert.Contains(t, out, want)
	}
	assert.NotContains(t, out, "Target.")
	assert.NotRegexp(t, `needs *\n`, out, "every needed field has an argument")

	content, err := os.ReadFile(report)
	require.NoError(t, err)
	var document junitSuites
	require.NoError(t, xml.Unmarshal(content, &document))
	suite := document.Suite
	assert.Equal(t, []int{44, 1, 10, 44}, []int{suite.Tests, suite.Failures, suite.Skipped, len(suite.Cases)})
	for _, c := range suite.Cases {
		assert.Equal(t, c.Name == "NeverGone", c.Failure != nil, c.Name)
		if c.Failure != nil {
			assert.Equal(t, "Always", c.Section)
			assert.Contains(t, c.Failure.Message, "responds with 410; seen in Signature/RawBytes")
			assert.Contains(t, c.Failure.Text, "\nfix: never respond with 410")
		}
	}
}

// During a rotation, the configuration contains two webhook secrets of the endpoint.
func TestCheckReadsConfiguration(t *testing.T) {
	t.Parallel()
	f := bare(t)
	prefix := "DISPENSARY_US_SANDBOX_"
	f.variables = map[string]string{
		prefix + "BASE_URL": "https://sandbox.example/api", prefix + "AUTH_URL": "https://sandbox.example",
		prefix + "WEBHOOK_SECRETS": mistakes.Secret + " " + mistakes.OldSecret, prefix + "WEBHOOK_CHALLENGE": mistakes.Challenge,
	}
	url := serve(t, mistakes.New(t))
	out, _ := f.ran("check", url, "--run", "Rotated")
	assert.Equal(t, "pass\tSignature/Valid\t\t\t\npass\tSignature/Rotated\t\t\t\n", out)

	delete(f.variables, prefix+"WEBHOOK_SECRETS")
	delete(f.variables, prefix+"WEBHOOK_CHALLENGE")
	f.rejected("--challenge-file: no webhook secret and challenge token are configured for us/sandbox", "check", url)
	production := map[string]string{}
	for name, value := range f.variables {
		production[strings.Replace(name, "SANDBOX", "PRODUCTION", 1)] = value
	}
	f.variables = production
	f.rejected("us/production contains live data: add --production", "check", url)
}

func TestCheckRejectsArguments(t *testing.T) {
	t.Parallel()
	f := checkFixture(t)
	closed := "http://" + freeAddress(t)
	secret := filepath.Join(f.folder, "secret")
	require.NoError(t, os.WriteFile(secret, []byte(mistakes.Secret), 0o600))
	for want, args := range map[string][]string{
		"the URL of one endpoint":                      {"check"},
		"--secret-env: NONE is not set":                {"check", closed, "--secret-env", "NONE"},
		"--secret-env and --secret-file: use only one": checks(closed, "--secret-file", secret),
		"--challenge-file: open none: no such file":    {"check", closed, "--secret-file", secret, "--challenge-file", "none"},
		"use --secret-env or --secret-file, and --challenge-env or --challenge-file: no environment is configured": {"check", closed, "--secret-file", secret},
		"foo is not a URL":                            {"check", "foo"},
		"the webhook secret equals Challenge":         {"check", closed, "--secret-file", secret, "--challenge-file", secret},
		"localhost:3000 is not a URL such as":         checks("localhost:3000"),
		"--run matches no case":                       checks(closed, "--run", "Signed"),
		"--run: error parsing regexp":                 checks(closed, "--run", "("),
		"--event-type is not one of clinic_key":       checks(closed, "--event-type", "order"),
		"--body-timeout contains a negative duration": checks(closed, "--timeout", "-1s"),
		"--log: open none: no such file":              checks(closed, "--log", "none"),
		"--without-secret: must be a URL":             checks(closed, "--without-secret", "localhost"),
		"--hooks: ":                                   checks(closed, "--hooks", closed),
		"does not accept an event with a valid signature but sends no response: ": checks(closed),
	} {
		assert.NotContains(t, f.rejected(want, args...), mistakes.Secret)
	}
}

// Verdicts after a failed hook are worthless.
func TestCheckReportsFailingHooks(t *testing.T) {
	t.Parallel()
	f := checkFixture(t)
	url := serve(t, mistakes.New(t))
	calls := 0
	f.fails("--hooks: /handled must respond with 200 or 204, not 500", checks(url, "--hooks", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusNotFound)
		case calls > 0:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			calls++
			_, _ = io.WriteString(w, "0")
		}
	})), "--patience", "10ms", "--run", "Replayed")...)
	f.fails("--hooks: /handled must respond with a number", checks(url, "--hooks", serve(t, serves(http.StatusOK, "many")))...)
	f.fails("--junit: open ", checks(url, "--run", "Valid", "--junit", f.folder)...)
}

func TestInterruptedCheckPrintsNoReport(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	f := checkFixture(t)
	url := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		interrupt()
		<-r.Context().Done()
	}))
	code, out, stderr := f.runWith(ctx, "", checks(url)...)
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, out)
	assert.Equal(t, "dispensary: interrupted\n", stderr)
}

// language is an example of a receiver in another language.
type language struct {
	interpreter, source string

	// Replacing right by wrong in the source makes the case fails fail.
	right, wrong string
	fails        string
}

var languages = map[string]language{
	"Node": {
		"node", "../../examples/node/receiver.mjs",
		"return Buffer.concat(chunks)", "return Buffer.from(chunks.map(String).join(''))", "Bodies/Characters",
	},
	"Python": {
		"python3", "../../examples/python/receiver.py",
		"abs(time.time() - int(match[1])) > TOLERANCE", "time.time() - int(match[1]) > TOLERANCE", "Signature/Future",
	},
}

// starts runs the source of a receiver until the end of the test and returns its URL.
func (l language) starts(t *testing.T, source string) string {
	t.Helper()
	interpreter, err := exec.LookPath(l.interpreter)
	if err != nil {
		t.Skip(l.interpreter + " is not installed")
	}
	file := filepath.Join(t.TempDir(), filepath.Base(l.source))
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	command := exec.Command(interpreter, file, "0")
	command.Env = append(os.Environ(), "WEBHOOK_SECRET="+mistakes.Secret, "WEBHOOK_CHALLENGE="+mistakes.Challenge)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		assert.NoError(t, command.Process.Kill())
		_ = command.Wait() // the error of the kill
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(url)
}

func TestCheckPassesOtherLanguages(t *testing.T) {
	t.Parallel()
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(l.source)
			require.NoError(t, err)
			f := checkFixture(t)
			code, out, stderr := f.run(checks(l.starts(t, string(source)), "--json", "--timeout", mistakes.Patience.String())...)
			assert.Equal(t, exitDone, code, stderr+out)
			assert.Len(t, rowsFor(t, out), 44)
		})
	}
}

func TestCheckFindsMistakesOfOtherLanguages(t *testing.T) {
	t.Parallel()
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			right, err := os.ReadFile(l.source)
			require.NoError(t, err)
			source := strings.Replace(string(right), l.right, l.wrong, 1)
			require.NotEqual(t, string(right), source)
			url := l.starts(t, source)
			var failed []string
			for range 5 { // a slow receiver may read a body sent in parts at once
				f := checkFixture(t)
				_, out, _ := f.run(checks(url, "--json", "--timeout", mistakes.Patience.String())...)
				for _, row := range rowsFor(t, out) {
					if row.Status == doctor.StatusFail {
						failed = append(failed, row.Check)
					}
				}
				if failed != nil {
					break
				}
			}
			assert.Contains(t, failed, l.fails)
		})
	}
}
