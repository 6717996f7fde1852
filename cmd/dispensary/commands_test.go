package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
				bare(t).refused("(see dispensary help", append(strings.Fields(name), nonsense)...)
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
