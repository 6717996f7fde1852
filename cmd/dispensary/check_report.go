package main

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/internal/doctor"
)

// asCheckFlags replaces fields of [receivercheck.Target] in verdicts by their flags.
var asCheckFlags = strings.NewReplacer(
	"Target.Hooks.BlockHandler", "the hook block_handler of --hooks",
	"Target.Hooks.BreakStorage", "the hook break_storage of --hooks",
	"Target.Hooks.Handled", "the hook handled of --hooks",
	"Target.Hooks.Logs returned nothing", "the file of --log is empty",
	"Target.Hooks.Logs", "--log",
	"Target.Hooks.WithoutSecret", "--without-secret",
	"Target.Features.OldSecret", "a second secret behind the webhook secret",
	"Target.Features.OtherEnvelopes", "--other-envelopes",
	"Target.Features.UnsignedProbe", "--unsigned-probe",
	"Target.Timing.BodyTimeout", "--body-timeout",
	"Target.Secret", "the given webhook secret",
)

// checkRows returns the rows of a report on verdicts. Each row contains up to most findings.
func checkRows(verdicts []receivercheck.Verdict, most int) []doctor.Row {
	rows := make([]doctor.Row, len(verdicts))
	for i, v := range verdicts {
		row := doctor.Row{Check: v.Case, Status: doctor.StatusPass}
		switch {
		case v.Skipped != "":
			row.Status, row.Seen = doctor.StatusSkip, v.Skipped
			if needs, _, found := strings.Cut(v.Skipped, ", "); found && strings.HasPrefix(needs, "needs Target.") {
				row.Seen = needs
			}
			row.Seen = asCheckFlags.Replace(row.Seen)
		case v.Failed():
			findings := v.Findings[:min(most, len(v.Findings))]
			row.Status, row.Seen = doctor.StatusFail, asCheckFlags.Replace(strings.Join(findings, "; "))
			if left := len(v.Findings) - most; left > 0 {
				row.Seen += fmt.Sprintf("; and %d more with --json", left)
			}
			row.Consequence, row.Fix = v.Consequence, asCheckFlags.Replace(v.Fix)
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
