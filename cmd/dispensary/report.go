package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/integration/doctor"
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

// statusStyles are the styles of the status at the beginning of a row.
var statusStyles = map[doctor.Status]style{doctor.StatusPass: green, doctor.StatusWarn: yellow, doctor.StatusFail: red, doctor.StatusSkip: faint}

// printReportTable prints a report as a table. Consequence and fix stand below the result of a row.
func (p *program) printReportTable(report doctor.Report) error {
	if _, err := fmt.Fprintf(p.out, "%s: %d passed, %d warn, %d failed, %d skipped\n\n", report.Environment,
		report.Count(doctor.StatusPass), report.Count(doctor.StatusWarn), report.Count(doctor.StatusFail), report.Count(doctor.StatusSkip)); err != nil {
		return err
	}
	name := 0
	for _, row := range report.Rows {
		name = max(name, len(row.Check))
	}
	before := strings.Repeat(" ", len("pass  ")+name+len("  "))
	for _, row := range report.Rows {
		lines := wrap(row.Seen, p.columns-len(before), "  ")
		if row.Consequence != "" {
			lines = append(lines, wrap("consequence: "+row.Consequence, p.columns-len(before), "  ")...)
		}
		if row.Fix != "" {
			lines = append(lines, wrap("fix: "+row.Fix, p.columns-len(before), "  ")...)
		}
		if err := p.styled(statusStyles[row.Status], string(row.Status)); err != nil {
			return err
		}
		text := fmt.Sprintf("  %-*s  %s", name, row.Check, strings.Join(lines, "\n"+before))
		if _, err := fmt.Fprintln(p.out, strings.TrimRight(text, " ")); err != nil {
			return err
		}
	}
	return nil
}

// wrap breaks a text between words into lines of up to room characters. All lines after the first
// begin with indent. A longer word has its own line. wrap returns at least one line.
func wrap(text string, room int, indent string) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch longer := line + " " + word; {
		case line == "":
			line = word
		case utf8.RuneCountInString(longer) <= room:
			line = longer
		default:
			lines, line = append(lines, line), indent+word
		}
	}
	return append(lines, line)
}

// checkNeeds maps [receivercheck.Verdict].Needs to arguments.
var checkNeeds = map[string]string{
	"Features.OldSecret":      "an old secret after the webhook secret",
	"Features.OtherEnvelopes": "--other-envelopes",
	"Hooks.BlockHandler":      "the hook block_handler of --hooks",
	"Hooks.BreakStorage":      "the hook break_storage of --hooks",
	"Hooks.Handled":           "the hook handled of --hooks",
	"Hooks.Logs":              "--log",
	"Hooks.WithoutSecret":     "--without-secret",
	"Timing.BodyTimeout":      "--body-timeout",
}

// checkRows returns the rows of a report on verdicts. Each row contains up to most findings.
func checkRows(verdicts []receivercheck.Verdict, most int) []doctor.Row {
	rows := make([]doctor.Row, len(verdicts))
	for i, v := range verdicts {
		row := doctor.Row{Check: v.Case, Status: doctor.StatusPass}
		switch {
		case v.Needs != "":
			row.Status, row.Seen = doctor.StatusSkip, "needs "+checkNeeds[v.Needs]
		case v.Skipped != "":
			row.Status, row.Seen = doctor.StatusSkip, v.Skipped
		case v.Failed():
			findings := v.Findings[:min(most, len(v.Findings))]
			row.Status, row.Seen = doctor.StatusFail, strings.Join(findings, "; ")
			if left := len(v.Findings) - most; left > 0 {
				row.Seen += fmt.Sprintf("; and %d more with --json", left)
			}
			row.Consequence, row.Fix = v.Consequence, v.Fix
		}
		rows[i] = row
	}
	return rows
}

// junitSuites is the root of a JUnit report.
type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Section string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitReason `xml:"failure"`
	Skipped *junitReason `xml:"skipped"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// junitReport returns a report as a JUnit XML document.
func junitReport(report doctor.Report) []byte {
	suite := junitSuite{
		Name: "dispensary check " + report.Environment, Tests: len(report.Rows),
		Failures: report.Count(doctor.StatusFail), Skipped: report.Count(doctor.StatusSkip),
	}
	for _, row := range report.Rows {
		section, name, _ := strings.Cut(row.Check, "/")
		made := junitCase{Section: section, Name: name}
		switch row.Status {
		case doctor.StatusFail:
			made.Failure = &junitReason{row.Seen, "consequence: " + row.Consequence + "\nfix: " + row.Fix}
		case doctor.StatusSkip:
			made.Skipped = &junitReason{Message: row.Seen}
		}
		suite.Cases = append(suite.Cases, made)
	}
	document, _ := xml.MarshalIndent(junitSuites{Suite: suite}, "", "  ") // never fails for texts and numbers
	return []byte(xml.Header + string(document) + "\n")
}
