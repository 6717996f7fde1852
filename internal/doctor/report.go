package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is how a check came out.
type Status string

// The statuses.
const (
	StatusPass Status = "pass"
	StatusWarn Status = "warn" // it works, and will not, or not always
	StatusFail Status = "fail"
	StatusSkip Status = "skip" // it could not be looked at; Row.Seen says why
)

// Row is what one check has found.
type Row struct {
	Check  string `json:"check"`
	Status Status `json:"status"`

	// Seen is what was seen, or why nothing was looked at.
	Seen string `json:"seen"`

	// Consequence is what that does in production, and Fix how to fix it; empty for what
	// passed or was skipped.
	Consequence string `json:"consequence,omitempty"`
	Fix         string `json:"fix,omitempty"`

	// Commands are what helps to fix it, or to see more. Nothing runs them.
	Commands []string `json:"commands,omitempty"`
}

// Report is what a [Run] has found.
type Report struct {
	// Environment is the one that was looked at, as in "us/sandbox".
	Environment string `json:"environment"`

	// At is when it was.
	At time.Time `json:"at"`

	// Rows are the checks, in the order of the package comment.
	Rows []Row `json:"rows"`
}

// Count returns how many rows have a status.
func (r Report) Count(status Status) int {
	n := 0
	for _, row := range r.Rows {
		if row.Status == status {
			n++
		}
	}
	return n
}

// columns is how wide a table is.
const columns = 100

// Write prints the report as a table of 100 columns, with what to do below each row that
// needs it. The error is that of w.
func (r Report) Write(w io.Writer) error {
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

// wrap breaks a text between words into lines of so many characters, those after the first
// indented. A longer word has a line of its own. There is one line at least.
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

// WriteCommands prints the commands that help, each below a comment with its check. The
// error is that of w.
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
