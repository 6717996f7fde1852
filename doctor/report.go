package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Status is how a check came out.
type Status string

// The statuses.
const (
	Pass Status = "pass"
	Warn Status = "warn" // it works, and will not, or not always
	Fail Status = "fail"
	Skip Status = "skip" // it could not be looked at; Row.Seen says why
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

// Failed reports that a check failed.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Status == Fail })
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

// Write prints the report as a table, with what to do below each row that needs it. The
// error is that of w.
func (r Report) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s: %d passed, %d warn, %d failed, %d skipped\n\n",
		r.Environment, r.Count(Pass), r.Count(Warn), r.Count(Fail), r.Count(Skip)); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.Rows {
		fmt.Fprintf(table, "%s\t%s\t%s\n", row.Status, row.Check, row.Seen)
		if row.Consequence != "" {
			fmt.Fprintf(table, "\t\tconsequence: %s\n", row.Consequence)
		}
		if row.Fix != "" {
			fmt.Fprintf(table, "\t\tfix: %s\n", row.Fix)
		}
	}
	return table.Flush()
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
	return Row{Status: Pass, Seen: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) Row {
	return Row{Status: Skip, Seen: fmt.Sprintf(format, args...)}
}

func warn(seen, consequence, fix string, commands ...string) Row {
	return Row{Status: Warn, Seen: seen, Consequence: consequence, Fix: fix, Commands: commands}
}

func fail(seen, consequence, fix string, commands ...string) Row {
	return Row{Status: Fail, Seen: seen, Consequence: consequence, Fix: fix, Commands: commands}
}
