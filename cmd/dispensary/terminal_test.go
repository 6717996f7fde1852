package main

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// steering contains characters that control a terminal, or reorder or hide its text.
const steering = "A\u009b2J\u009d0;owned\u009c\u007f\u202e\u2066\u200e\u061c\ufeff\u2028\U000e0041"

// assertSteersNothing fails for each control character and each invisible character. It ignores line
// breaks, tabs, joiners of letters and the styles of the command.
func assertSteersNothing(t *testing.T, sent string, context ...any) {
	t.Helper()
	sent = strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "", "\x1b[31m", "", "\x1b[32m", "").Replace(sent)
	for _, r := range sent {
		if !strings.ContainsRune("\n\t\u200c\u200d", r) && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			assert.Fail(t, "controls a terminal", "%U in %q: %v", r, sent, context)
		}
	}
}

// platformOf returns a fixture whose platform responds to all requests with body.
func platformOf(t *testing.T, body string) *fixture {
	t.Helper()
	f := newFixture(t).withToken()
	f.behind(serves(http.StatusOK, body))
	return f
}

func TestTerminalGetsNoControlCharacters(t *testing.T) {
	t.Parallel()
	f := platformOf(t, `{"clinic":{"id":"c","name":"`+steering+`"}}`)
	f.terminal = true
	for _, args := range [][]string{
		{"api", "GET", "/clinic"},
		{"api", "GET", "/clinic", "--json"},
		{"api", "GET", "/clinic", "--jq", ".clinic.name"},
		{"api", "GET", "/clinic", "--jq", ".clinic"},
		{"api", "GET", "/clinic", "--jq", `error("` + steering + `")`},
	} {
		_, out, stderr := f.run(args...)
		assertSteersNothing(t, out+stderr, args)
		assert.Contains(t, out+stderr, `\u009b2J\u009d0;owned`, args)
	}
	_, out, _ := f.run("api", "GET", "/clinic", "--jq", ".clinic")
	var clinic struct{ Name string }
	require.NoError(t, json.Unmarshal([]byte(out), &clinic))
	assert.Equal(t, steering, clinic.Name, "escaping must not change the decoded JSON")
}

func TestPipeGetsExactBytes(t *testing.T) {
	t.Parallel()
	const message = "Dear Jane,\nTake it\tdaily." + steering
	encoded, err := json.Marshal(message)
	require.NoError(t, err)
	f := platformOf(t, `{"message":`+string(encoded)+`,"number":9007199254740993,"big":12345678901234567891,"decimal":12.50}`)
	for query, want := range map[string]string{
		".message": message, ".number": "9007199254740993", ".big": "12345678901234567891", ".decimal": "12.50",
		".number+1": "9007199254740994", "{number}": `{"number":9007199254740993}`,
	} {
		_, out, stderr := f.run("api", "GET", "/clinic", "--jq", query)
		assert.Equal(t, want+"\n", out, stderr)
	}
}

func TestExportIsPrintableOnTerminalOnly(t *testing.T) {
	t.Parallel()
	const name = "Zinc \x1b]0;owned\x07 " + steering
	f := newFixture(t).withToken()
	_, _, err := f.platform.Products.Update(f.platform.Products.All()[0].ID, model.ProductUpdate{Name: new(name)})
	require.NoError(t, err)
	f.ran("catalog", "sync")
	_, out, _ := f.run("catalog", "export")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	var names []string
	for _, row := range rows {
		names = append(names, row[1])
	}
	assert.Contains(t, names, name)
	f.terminal = true
	for _, args := range [][]string{{"export"}, {"export", "--json"}, {"search", "zinc"}, {"search", "zinc", "--json"}} {
		_, out, stderr := f.run(append([]string{"catalog"}, args...)...)
		assertSteersNothing(t, out+stderr, args)
		assert.Contains(t, out, `\u001b]0;owned\u0007`, args)
	}
}

func TestStderrIsAlwaysPrintable(t *testing.T) {
	t.Parallel()
	_, _, stderr := bare(t).run("no" + steering)
	assertSteersNothing(t, stderr)
	f := newFixture(t)
	control := f.behind(serves(http.StatusBadRequest, `{"error":"`+steering+`"}`))
	_, _, stderr = f.run("trigger", "patient.created", "--control", control.URL)
	assert.Contains(t, stderr, `A\u009b2J`)
	assertSteersNothing(t, stderr)
}

// On a narrow terminal, texts break between words.
func TestHelpFitsTerminal(t *testing.T) {
	t.Parallel()
	f := bare(t)
	f.columns = 60
	for _, command := range []string{"doctor", "verify", "init"} {
		_, help, _ := f.run("help", command)
		for line := range strings.Lines(help) {
			if strings.HasPrefix(line, "  dispensary ") || strings.HasPrefix(line, "Usage:") { // examples are pasted
				continue
			}
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 60, line)
		}
	}
}
