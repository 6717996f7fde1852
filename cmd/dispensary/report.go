package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dispensary-go/dispensary/internal/doctor"
)

// printReport prints the document with --json, and the rows of report otherwise.
func (p *program) printReport(document any, report doctor.Report) error {
	if p.terminal && !p.json {
		return p.printReportTable(report)
	}
	var rows [][]string
	for _, row := range report.Rows {
		rows = append(rows, []string{string(row.Status), row.Check, row.Seen, row.Consequence, row.Fix})
	}
	return p.print(document, nil, rows)
}

// checksFailed returns an error if any check of a report failed.
func checksFailed(report doctor.Report) error {
	switch n := report.Count(doctor.StatusFail); n {
	case 0:
		return nil
	case 1:
		return failed(errors.New("1 check failed"))
	default:
		return failed(fmt.Errorf("%d checks failed", n))
	}
}

// statusStyles are the styles of the status at the beginning of a line.
var statusStyles = map[doctor.Status]style{doctor.StatusPass: green, doctor.StatusWarn: yellow, doctor.StatusFail: red, doctor.StatusSkip: faint}

// printReportTable prints a report on a terminal, with styles.
func (p *program) printReportTable(report doctor.Report) error {
	var table strings.Builder
	if err := report.Write(&table, p.columns); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		status, _, _ := strings.Cut(line, " ")
		if as, known := statusStyles[doctor.Status(status)]; known {
			if err := p.styled(as, status); err != nil {
				return err
			}
			line = line[len(status):]
		}
		if _, err := io.WriteString(p.out, line); err != nil {
			return err
		}
	}
	return nil
}
