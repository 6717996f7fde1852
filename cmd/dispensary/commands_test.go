package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// everyCommand returns all commands by their words after "dispensary".
func everyCommand(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	all := map[string]*cobra.Command{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			if child.Name() == "completion" { // defined by cobra
				continue
			}
			all[strings.TrimPrefix(child.CommandPath(), "dispensary ")] = child
			walk(child)
		}
	}
	root := bare(t).program(nil, nil, nil).root()
	root.InitDefaultHelpCmd()
	walk(root)
	require.Contains(t, all, "fake")
	require.Contains(t, all, "help")
	return all
}

func TestEveryCommandIsDocumentedAndStrict(t *testing.T) {
	t.Parallel()
	for name, c := range everyCommand(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NotEmpty(t, c.Short)
			assert.NotEmpty(t, c.Long)
			assert.GreaterOrEqual(t, strings.Count(c.Example, "dispensary "), 3, "at least three examples")
			code, help, stderr := bare(t).run(append(strings.Fields(name), "--help")...)
			assert.Equal(t, exitDone, code)
			assert.Empty(t, stderr)
			for _, part := range []string{fit(c.Long, maxColumns), c.Example, "--json ", "--profile NAME", "--config FILE", "--production ", "--no-color "} {
				assert.Contains(t, help, strings.TrimSpace(part))
			}
			for line := range strings.Lines(help) {
				assert.LessOrEqual(t, len(line), 110, "%s", line)
			}

			for _, nonsense := range []string{"--no-such-flag", "--jsn=1", "-Q"} {
				bare(t).rejected("(see dispensary help", append(strings.Fields(name), nonsense)...)
			}
			if !c.HasSubCommands() {
				assert.NotNil(t, schemaOf(t, name))
			}
		})
	}
}

func TestHelpDescribesEveryCommandAsJSON(t *testing.T) {
	t.Parallel()
	code, out, stderr := bare(t).run("help", "--json")
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, 1, assertDocuments(t, "help", out))
	var root manual
	require.NoError(t, json.Unmarshal([]byte(out), &root))
	described := map[string]manual{}
	var walk func(manual)
	walk = func(m manual) {
		described[strings.TrimPrefix(m.Command, "dispensary ")] = m
		for _, child := range m.Commands {
			walk(child)
		}
	}
	walk(root)
	for name, c := range everyCommand(t) {
		if name != "help" {
			assert.Equal(t, c.Long, described[name].Long, name)
		}
	}
	flags := map[string]flagManual{}
	for _, flag := range append(root.Flags, described["catalog search"].Flags...) {
		flags[flag.Name] = flag
	}
	assert.Empty(t, flags["--json"].Value, "a Boolean flag has no value")
	assert.Equal(t, "NAME", flags["--profile"].Value)
	assert.Equal(t, "10", flags["--limit"].Default)

	code, out, stderr = bare(t).run("help", "catalog", "sync", "--json")
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, out, `"command":"dispensary catalog sync"`)
	assert.NotContains(t, out, "dispensary catalog search")
}

func TestCompletionKnowsCommandsAndFlags(t *testing.T) {
	t.Parallel()
	for shell, part := range map[string]string{
		"bash": "complete -o default", "zsh": "#compdef dispensary", "fish": "complete -c dispensary", "powershell": "Register-ArgumentCompleter",
	} {
		code, script, stderr := bare(t).run("completion", shell)
		assert.Equal(t, exitDone, code, stderr)
		assert.Contains(t, script, part)
	}
	completed := func(args ...string) string {
		code, out, _ := bare(t).run(append([]string{cobra.ShellCompRequestCmd}, args...)...)
		assert.Equal(t, exitDone, code)
		return out
	}
	for name, c := range everyCommand(t) {
		words := strings.Fields(name)
		begun := append(words[:len(words)-1:len(words)-1], words[len(words)-1][:2])
		assert.Contains(t, completed(begun...), words[len(words)-1]+"\t"+c.Short, "completes the name")
		assert.Contains(t, completed(append(words, "--pro")...), "--profile", "completes flags")
	}
}

// schemaOf compiles the schema of a command's documents.
func schemaOf(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	file := filepath.Join("schemas", strings.ReplaceAll(name, " ", "-")+".json")
	schema, err := jsonschema.NewCompiler().Compile(file)
	require.NoError(t, err)
	return schema
}

// assertDocuments validates each line of stdout against the schema of the command, and returns the
// number of lines.
func assertDocuments(t *testing.T, name, stdout string) int {
	t.Helper()
	schema, n := schemaOf(t, name), 0
	for line := range strings.Lines(stdout) {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		require.NoError(t, err, "a line must be a JSON document: %s", line)
		require.NoError(t, schema.Validate(document))
		n++
	}
	return n
}

// document runs a command with --json and decodes the one document that it prints.
func (f *fixture) document(name string, into any, args ...string) {
	f.t.Helper()
	code, out, stderr := f.run(append(append(strings.Fields(name), "--json"), args...)...)
	require.Equal(f.t, exitDone, code, stderr)
	require.Equal(f.t, 1, assertDocuments(f.t, name, out))
	require.NoError(f.t, json.Unmarshal([]byte(out), into))
}

func TestPrintWritesTablesAndLines(t *testing.T) {
	t.Parallel()
	printed := func(terminal bool, variables map[string]string) string {
		var out bytes.Buffer
		p := bare(t).program(nil, &out, nil)
		p.terminal = terminal
		p.guard()
		p.environ = environment(variables)
		require.NoError(t, p.print(nil, []string{"TYPE", "COUNT"}, [][]string{{"patient.created", "3"}, {"a\x1b[2Jb\tc\n", "10"}}))
		return out.String()
	}
	assert.Equal(t, "patient.created\t3\na\x1b[2Jb c \t10\n", printed(false, nil))
	assert.Equal(t, "\x1b[1mTYPE             COUNT\x1b[0m\npatient.created  3\na\\u001b[2Jb c    10\n", printed(true, nil))
	for _, variables := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		assert.NotContains(t, printed(true, variables), "\x1b")
	}
}

// Long texts wrap between words at the width of the terminal.
func TestReportIsTableOnTerminal(t *testing.T) {
	t.Parallel()
	words, long := strings.TrimSpace(strings.Repeat("ten lettérs ", 20)), strings.Repeat("x", 120)
	printed := func(rows ...doctor.Row) string {
		var out bytes.Buffer
		p := bare(t).program(nil, &out, nil)
		p.terminal, p.columns = true, 100
		require.NoError(t, p.printReport(nil, doctor.Report{Environment: "us/sandbox", Rows: rows}))
		return out.String()
	}
	assert.Equal(t, `us/sandbox: 1 passed, 0 warn, 1 failed, 1 skipped

pass  site address  responds
fail  clock         6 min behind
                    consequence: webhooks are rejected
                    fix: use a time server
skip  store         no token store outside of memory is configured
`, printed(
		doctor.Row{Check: "site address", Status: doctor.StatusPass, Seen: "responds"},
		doctor.Row{Check: "clock", Status: doctor.StatusFail, Seen: "6 min behind", Consequence: "webhooks are rejected", Fix: "use a time server"},
		doctor.Row{Check: "store", Status: doctor.StatusSkip, Seen: "no token store outside of memory is configured"},
	))
	_, rows, _ := strings.Cut(printed(doctor.Row{Check: "redirect address", Status: doctor.StatusWarn, Seen: words + " " + long + " end", Fix: words}), "\n\n")
	for line := range strings.Lines(rows) {
		line = strings.TrimSuffix(line, "\n")
		assert.True(t, utf8.RuneCountInString(line) <= 100 || strings.TrimSpace(line) == long, line)
	}
	assert.Equal(t, strings.Fields("warn redirect address "+words+" "+long+" end fix: "+words), strings.Fields(rows), "all words")
	assert.Contains(t, rows, "\n"+strings.Repeat(" ", 24)+"fix: ten lettérs ")
	assert.Contains(t, rows, "\n"+strings.Repeat(" ", 26)+"lettérs ten")
}

// The error of an unreachable PostgreSQL server contains line breaks and tabs.
func TestDriverErrorIsOneLine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := freeAddress(t)
	f.variables["DISPENSARY_STORE"] = "postgres://app@" + address + "/x?sslmode=disable"
	f.variables["DISPENSARY_SEAL_KEYS"] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	_, _, stderr := f.run("accounts", "list")
	assert.Contains(t, stderr, address)
	assert.NotContains(t, stderr, `\u`)
	assert.NotContains(t, stderr, ":;")
	assert.Equal(t, "a: b; c d", oneLine("\na:\n\tb\n\n c\td\n"))
}

func TestHelpDescribesCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		code, out, _ := bare(t).run(args...)
		assert.Equal(t, exitDone, code)
		assert.Contains(t, out, "Run a fake dispensary platform until Ctrl-C")
		assert.Contains(t, out, "Exit codes: 0 ")
	}
	for _, args := range [][]string{{}, {"--json"}} {
		code, out, stderr := bare(t).run(args...)
		assert.Equal(t, exitReject, code)
		assert.Empty(t, out)
		assert.Contains(t, stderr, "Usage:")
	}

	code, out, stderr := bare(t).run("fake", "-h")
	assert.Equal(t, exitDone, code)
	assert.Empty(t, stderr)
	_, same, _ := bare(t).run("help", "fake")
	assert.Equal(t, out, same)
	for _, s := range behavior.Choices() {
		assert.Regexp(t, `(?m)^  `+s.Name+` +.*\b`+s.Variants[1].Name(), out)
	}
	for _, scope := range operation.Scopes() {
		assert.Contains(t, out, scope)
	}
	for _, flag := range []string{"--addr HOST:PORT ", "--size WORD ", "--json ", "Examples:"} {
		assert.Contains(t, out, flag)
	}
}

func TestVersionNamesGoVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--version", "version"} {
		code, out, _ := bare(t).run(arg)
		assert.Equal(t, exitDone, code)
		assert.Equal(t, "dispensary "+dispensary.Version()+", "+runtime.Version()+"\n", out)
	}
}

func TestInvalidArgumentsAreRejected(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"fakes":                             `unknown command "fakes": did you mean fake?`,
		"help nosuch":                       `unknown command "nosuch"`,
		"completion tcsh":                   `unknown command "tcsh"`,
		"fake now":                          `fake accepts no arguments: remove "now"`,
		"fake -seed 1":                      "-seed: long flags have two dashes, --seed",
		"fake --seed one":                   "must be a whole number",
		"fake --seed 7x":                    "must be a whole number",
		"fake --integrations many":          "must be a whole number",
		"fake --integrations 2x":            "must be a whole number",
		"fake --region XX":                  "must be US or CA",
		"fake --size huge":                  "must be small or large",
		"fake --freeze yesterday":           "must be a time such as",
		"fake --clinic-tokens=perhaps":      "true or false",
		"fake --cert x.pem":                 "--cert: add --tls",
		"help fakes":                        `unknown command "fakes"`,
		"fake --adr x":                      "unknown flag: --adr: did you mean --addr?",
		"fake --websook=x":                  "unknown flag: --websook: did you mean --webhook?",
		"fake --prodcution":                 "unknown flag: --prodcution: did you mean --production?",
		"catalog sync --enviroment x":       "unknown flag: --enviroment: did you mean --environment?",
		"fake --zzzzzzzz":                   "unknown flag: --zzzzzzzz (see",
		"fake -z":                           "unknown shorthand flag: 'z' in -z (see",
		"trigger order.palced":              `there is no event type "order.palced" (did you mean "order.placed"?)`,
		"fake --redirect-uri here":          `--redirect-uri: "here" is not an absolute URL`,
		"fake --redirect-uri ftp://here":    `--redirect-uri: "ftp://here" must begin with https://`,
		"fake --scopes everything":          `--scopes: there is no scope "everything", only catalog:read, `,
		"fake --scopes patients:raed":       `(did you mean "patients:read"?)`,
		"fake --integrations 1000":          "must be from 1 to 100",
		"fake --webhook http://example.com": "plain HTTP and not on loopback",
		"fake --webhook ftp://127.0.0.1":    `--webhook: "ftp://127.0.0.1" must begin with https://`,
		"fake --behavior probe=never":       `probe has no variant "never", only off, on-registration, before-each`,
		"fake --behavior probe":             "must be NAME=VARIANT, such as probe=before-each",
		"fake --behavior foo=bar":           `--behavior: there is no behavior "foo" (see dispensary help fake)`,
		"fake --behavior prob=off":          `(did you mean "probe"?)`,
		"fake --behaviors commands_test.go": "--behaviors: commands_test.go: not a file of behaviors",
		"fake --addr 8080":                  "HOST:PORT",
		"fake --control-addr 8080":          "HOST:PORT",
		"fake --addr 192.0.2.1:80":          "add --expose",
		"fake --addr :8080":                 "add --expose",
		"fake --addr :8080 --expose":        "use the address by which other machines reach",
		"fake --addr 0.0.0.0:1 --expose":    "use the address by which other machines reach",
		"fake --control-addr 0.0.0.0:0":     "must be a loopback address",
		"fake --control-addr ehr.example:0": "must be a loopback address",
	} {
		assert.Contains(t, bare(t).rejected(want, strings.Fields(args)...), " (see dispensary help", args)
	}
}

func TestFailedStartIsRejected(t *testing.T) {
	t.Parallel()
	at := takeAddress(t, "127.0.0.1:0")
	for args, want := range map[string]string{
		"fake --addr " + at:                "--addr " + at + ": address already in use",
		"fake --control-addr " + at:        "--control-addr " + at + ": address already in use",
		"fake --expose --addr 192.0.2.1:0": "--addr 192.0.2.1:0: ",
		"fake --webhook http://127.0.0.1:1/ --behavior probe=on-registration": "--webhook: probe: ",
		"fake --state /none/state.json":                                       "--state /none/state.json: directory /none does not exist",
		"fake --state .":                                                      "is a directory",
		"fake --tls --cert /none/platform.pem":                                "--cert: ",
	} {
		bare(t).rejected(want, strings.Fields(args)...)
	}
}

func TestUnwritableOutputEndsFake(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"fake"}, {"fake", "--json"}} {
		var stderr bytes.Buffer
		assert.Equal(t, exitReject, bare(t).program(nil, unwritable{}, &stderr).run(t.Context(), args))
		assert.Contains(t, stderr.String(), io.ErrClosedPipe.Error())
	}
}

func TestInterruptEndsPrompts(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"question": {"probe"}, "request body": {"api", "POST", "/clinic/patients", "--input", "-"}, "delivery": {"verify", "-", "--secret-file", "commands_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).withToken()
			f.terminal = true
			stdin, _ := io.Pipe()
			asked := &signaling{Reader: stdin, read: make(chan struct{})}
			r := f.start(asked, args...)
			<-asked.read
			r.end(exitFailed)
			assert.Contains(t, r.errOut.String(), "dispensary: interrupted\n")
			assert.Empty(t, f.platform.Journal.Requests())
		})
	}
}

// signaling reports its first read.
type signaling struct {
	io.Reader
	read chan struct{}
}

func (s *signaling) Read(to []byte) (int, error) {
	close(s.read)
	return s.Reader.Read(to)
}

// shown matches a call of the command in a page: a line of a block, or inline code.
var shown = regexp.MustCompile("(?m)(?:^(?:\\$ )?|`)dispensary ([a-z][^`\n#]*)")

// Calls of the command in pages must name existing commands and flags.
func TestPagesNameExistingCommands(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	root := bare(t).program(nil, nil, nil).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	calls := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md", "../../oauth/sqlstore/README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, call := range shown.FindAllStringSubmatch(string(text), -1) {
			args := strings.Fields(strings.TrimSpace(call[1]))
			command, rest, err := root.Find(args)
			if !assert.NoError(t, err, "%s: %s", page, call[0]) || !assert.NotEqual(t, root, command, "%s: %s", page, call[0]) {
				continue
			}
			if end := slices.Index(rest, "--"); end >= 0 { // the command of dev
				rest = rest[:end]
			}
			for _, arg := range rest {
				if name, isFlag := strings.CutPrefix(arg, "--"); isFlag {
					name, _, _ = strings.Cut(name, "=")
					assert.NotNil(t, command.Flag(name), "%s: %s", page, call[0])
				}
			}
			calls++
		}
	}
	assert.Greater(t, calls, 30)
}
