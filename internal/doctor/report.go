package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is the result of a check.
type Status string

// The results of a check.
const (
	StatusPass Status = "pass"
	StatusWarn Status = "warn" // works now, but not always or not for long
	StatusFail Status = "fail"
	StatusSkip Status = "skip" // not checked, for the reason in Row.Seen
)

// Row is the result of one check.
type Row struct {
	Check  string `json:"check"`
	Status Status `json:"status"`

	// Seen describes the result, or the reason for skipping the check.
	Seen string `json:"seen"`

	// Consequence is the effect in production, and Fix the remedy. Both are empty if the check
	// passed or was skipped.
	Consequence string `json:"consequence,omitempty"`
	Fix         string `json:"fix,omitempty"`

	// Commands are shell commands that fix the fault or show details. Doctor never runs them.
	Commands []string `json:"commands,omitempty"`
}

// Report is the result of [Run].
type Report struct {
	// Environment is the checked environment, such as "us/sandbox".
	Environment string `json:"environment"`

	// At is the time of the run in UTC, in whole seconds.
	At time.Time `json:"at"`

	// Rows are the results, in the order of the package comment.
	Rows []Row `json:"rows"`
}

// Count returns the number of rows with a status.
func (r Report) Count(status Status) int {
	n := 0
	for _, row := range r.Rows {
		if row.Status == status {
			n++
		}
	}
	return n
}

// Write prints the report as a table with a width in characters. Consequence and fix stand below
// the result of a row. It fails only with an error of w.
func (r Report) Write(w io.Writer, columns int) error {
	name := 0
	for _, row := range r.Rows {
		name = max(name, len(row.Check))
	}
	room := columns - len("pass  ") - name - len("  ")
	var table strings.Builder
	for _, row := range r.Rows {
		lines := wrap(row.Seen, room)
		if row.Consequence != "" {
			lines = append(lines, wrap("consequence: "+row.Consequence, room)...)
		}
		if row.Fix != "" {
			lines = append(lines, wrap("fix: "+row.Fix, room)...)
		}
		status, check := string(row.Status), row.Check
		for _, line := range lines {
			table.WriteString(strings.TrimRight(fmt.Sprintf("%-4s  %-*s  %s", status, name, check, line), " ") + "\n")
			status, check = "", ""
		}
	}
	_, err := fmt.Fprintf(w, "%s: %d passed, %d warn, %d failed, %d skipped\n\n%s",
		r.Environment, r.Count(StatusPass), r.Count(StatusWarn), r.Count(StatusFail), r.Count(StatusSkip), &table)
	return err
}

// wrap breaks a text between words into lines of up to room characters, and indents all lines
// after the first. A longer word has its own line. wrap returns at least one line.
func wrap(text string, room int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch longer := line + " " + word; {
		case line == "":
			line = word
		case utf8.RuneCountInString(longer) <= room:
			line = longer
		default:
			lines, line = append(lines, line), "  "+word
		}
	}
	return append(lines, line)
}

// WriteCommands prints the commands of all rows, below a comment with the check and its fix. It
// fails only with an error of w.
func (r Report) WriteCommands(w io.Writer) error {
	var text strings.Builder
	for _, row := range r.Rows {
		if len(row.Commands) > 0 {
			fmt.Fprintf(&text, "# %s: %s\n%s\n", row.Check, row.Fix, strings.Join(row.Commands, "\n"))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func pass(format string, args ...any) Row {
	return Row{Status: StatusPass, Seen: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) Row {
	return Row{Status: StatusSkip, Seen: fmt.Sprintf(format, args...)}
}

func warn(seen, consequence, fix string, commands ...string) Row {
	return Row{Status: StatusWarn, Seen: seen, Consequence: consequence, Fix: fix, Commands: commands}
}

func fail(seen, consequence, fix string, commands ...string) Row {
	return Row{Status: StatusFail, Seen: seen, Consequence: consequence, Fix: fix, Commands: commands}
}
