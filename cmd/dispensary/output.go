package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
)

// print prints a document with --json, and otherwise its rows: a table with a header on
// a terminal, and anywhere else plain lines with tabs.
func (p *program) print(document any, header []string, rows [][]string) error {
	if p.json {
		return p.printJSON(document)
	}
	if !p.terminal {
		for _, row := range rows {
			if _, err := fmt.Fprintln(p.out, strings.Join(cells(row), "\t")); err != nil {
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
	_, err := fmt.Fprintf(p.out, "%s\n%s", p.style(bold, strings.TrimRight(first, " ")), rest)
	return err
}

// printJSON prints a document on a line.
func (p *program) printJSON(document any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// cells makes texts fit for a line with tabs between them.
func cells(row []string) []string {
	made := make([]string, len(row))
	for i, text := range row {
		made[i] = printable(strings.Join(strings.Fields(text), " "))
	}
	return made
}

// printable replaces characters that could steer a terminal: texts come from other machines.
func printable(text string) string { return strings.Map(harmless, text) }

// printableLines is printable for a text that keeps its lines and tabs.
func printableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return harmless(r)
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// harmless returns r, or a replacement for a control character.
func harmless(r rune) rune {
	if unicode.IsControl(r) {
		return unicode.ReplacementChar
	}
	return r
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

// style returns a text in a style, where there are styles: see no-color.org.
func (p *program) style(as style, text string) string {
	unwanted, _ := p.lookup("NO_COLOR")
	kind, _ := p.lookup("TERM")
	if !p.terminal || p.noColor || unwanted != "" || kind == "dumb" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}
