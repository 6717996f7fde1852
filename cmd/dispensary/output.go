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

// print prints a document with --json, and otherwise its rows: a table with a header on
// a terminal, and anywhere else plain lines with tabs.
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
	_ = table.Flush() // a Builder takes everything
	first, rest, _ := strings.Cut(aligned.String(), "\n")
	err := p.styled(bold, strings.TrimRight(first, " "))
	_, restErr := fmt.Fprint(p.out, "\n", rest)
	return cmp.Or(err, restErr)
}

// printJSON prints a document on a line.
func (p *program) printJSON(document any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// cells returns texts for a line of a table.
func cells(row []string) []string {
	made := make([]string, len(row))
	for i, text := range row {
		made[i] = terminal.Printable(strings.Join(strings.Fields(text), " "))
	}
	return made
}

// breaks replaces the characters that would end a cell of a plain line.
var breaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// fields returns texts for a plain line with tabs. Everything but tabs and line breaks stays.
func fields(row []string) []string {
	made := make([]string, len(row))
	for i, text := range row {
		made[i] = breaks.Replace(text)
	}
	return made
}

// guard keeps texts from steering a terminal. A stdout that is no terminal gets exact bytes.
// Stderr is for people, who may read it later from a log, so its texts are always escaped.
func (p *program) guard() {
	p.errOut = terminal.NewWriter(p.errOut)
	if p.terminal {
		p.out = terminal.NewWriter(p.out)
	}
}

// style is a way to print on a terminal.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// styled prints a text in a style, if stdout has styles: see no-color.org.
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

// timeText is a time for people and scripts; a dash if it is not known.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// age is a duration as a person says it.
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
