package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
)

// print prints document with --json. Otherwise it prints rows: as a table with header on a
// terminal, and as tab-separated lines elsewhere.
func (p *program) print(document any, header []string, rows [][]string) error {
	if p.json {
		return p.printJSON(document)
	}
	if !p.terminal {
		for _, row := range rows {
			if _, err := fmt.Fprintln(p.out, strings.Join(fields(row), "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	var aligned strings.Builder
	table := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(table, strings.Join(cells(row), "\t"))
	}
	_ = table.Flush() // a strings.Builder never fails
	if len(rows) == 0 {
		aligned.WriteString("(none)\n")
	}
	first, rest, _ := strings.Cut(aligned.String(), "\n")
	err := p.styled(bold, strings.TrimRight(first, " "))
	_, restErr := fmt.Fprint(p.out, "\n", rest)
	return cmp.Or(err, restErr)
}

// printJSON prints a document on one line.
func (p *program) printJSON(document any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// cells returns printable texts without line breaks, for a line of a table.
func cells(row []string) []string {
	made := make([]string, len(row))
	for i, text := range row {
		made[i] = terminal.Printable(strings.Join(strings.Fields(text), " "))
	}
	return made
}

// breaks replaces characters that would end a cell of a tab-separated line.
var breaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// fields returns texts for a tab-separated line. It replaces only tabs and line breaks.
func fields(row []string) []string {
	made := make([]string, len(row))
	for i, text := range row {
		made[i] = breaks.Replace(text)
	}
	return made
}

// guard prevents text from controlling a terminal. If stdout is not a terminal, it gets exact
// bytes. Text on stderr is always escaped, because users may later view a log of it on a terminal.
func (p *program) guard() {
	p.errOut = terminal.NewWriter(p.errOut)
	if p.terminal {
		p.out = terminal.NewWriter(p.out)
	}
}

// style is the parameter of an SGR escape sequence.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// styled prints text in a style. It omits the style if stdout is not a terminal, TERM is dumb, or
// --no-color or NO_COLOR is set (see no-color.org).
func (p *program) styled(as style, text string) error {
	unwanted := p.lookup("NO_COLOR")
	kind := p.lookup("TERM")
	t, is := p.out.(*terminal.Writer)
	if !is || p.noColor || unwanted != "" || kind == "dumb" {
		_, err := io.WriteString(p.out, text)
		return err
	}
	return t.Sequence("\x1b["+string(as)+"m", text, "\x1b[0m")
}

// timeText returns t in UTC as RFC 3339, or a dash if t is zero.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// age returns a duration in one rounded-down unit: s, min, h or d.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " d"
}
