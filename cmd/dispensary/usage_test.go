package main

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/internal/operation"
)

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
		assert.Equal(t, exitRefuse, code)
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
		"fake --behaviors usage_test.go":    "--behaviors: usage_test.go: not a file of behaviors",
		"fake --addr 8080":                  "HOST:PORT",
		"fake --control-addr 8080":          "HOST:PORT",
		"fake --addr 192.0.2.1:80":          "add --expose",
		"fake --addr :8080":                 "add --expose",
		"fake --addr :8080 --expose":        "use the address by which other machines reach",
		"fake --addr 0.0.0.0:1 --expose":    "use the address by which other machines reach",
		"fake --control-addr 0.0.0.0:0":     "must be a loopback address",
		"fake --control-addr ehr.example:0": "must be a loopback address",
	} {
		assert.Contains(t, bare(t).refused(want, strings.Fields(args)...), " (see dispensary help", args)
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
		bare(t).refused(want, strings.Fields(args)...)
	}
}

func TestUnwritableOutputEndsFake(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"fake"}, {"fake", "--json"}} {
		var stderr bytes.Buffer
		assert.Equal(t, exitRefuse, bare(t).program(nil, unwritable{}, &stderr).run(t.Context(), args))
		assert.Contains(t, stderr.String(), io.ErrClosedPipe.Error())
	}
}
