package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

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
