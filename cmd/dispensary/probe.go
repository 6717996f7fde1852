package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/probe"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// probeCommand is the command with its flags.
type probeCommand struct {
	*program
	target
	spare, narrow, output string
	yes                   bool
}

func newProbeCommand(p *program) *cobra.Command {
	c := probeCommand{program: p}
	command := &cobra.Command{
		Use:   "probe",
		Short: "Learn the undocumented behavior of a sandbox",
		Long: `Probe tests each undocumented behavior of the API in a sandbox, and prints each result with the
IDs of its requests. It writes a file that sets the same behaviors in "dispensary fake
--behaviors". It rejects a production environment.

Probe creates patients and treatment plans with a marker in their names. They cannot be deleted.
It calls as a user connected with "dispensary login", and revokes the authorization of this user.
Without --yes, it asks for confirmation before it creates or revokes anything. If
DISPENSARY_ACCESS_TOKEN is set and --user is not, probe calls with this token, and learns nothing
about refreshing and revoking tokens.

With --spare and another user, probe also tests how far the revocation of a refresh token reaches.
With --narrow-file, it also tests the response to a missing scope. This file contains an access
token of the same clinic without the scope patients:read, such as a token of another application.
Probe uses this token once and does not revoke it.

Exit codes: 0 on success. 1 if probe was interrupted or failed: records may stay. 2 if it sent no
request, such as without your confirmation.`,
		Example: `  dispensary probe --user dr-house
  dispensary probe --user dr-house --spare dr-wilson --yes --json
  dispensary probe --user dr-house --narrow-file /run/secrets/catalog_token
  dispensary fake --behaviors behaviors.json`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command.Context()) },
	}
	flags := command.Flags()
	c.define(flags)
	c.defineUser(flags)
	flags.StringVar(&c.spare, "spare", "", "also revoke the authorization of the connected user `ID`, to test how far revocation reaches")
	flags.StringVar(&c.narrow, "narrow-file", "", "read an access token without the scope patients:read from `FILE`, to test missing scopes")
	flags.StringVar(&c.output, "output", "behaviors.json", "write the behavior to `FILE`")
	flags.BoolVar(&c.yes, "yes", false, "do not ask for confirmation")
	return command
}

// run probes a sandbox, writes the file and prints the report.
func (c *probeCommand) run(ctx context.Context) (err error) {
	app, a, err := c.openAccounts(ctx, c.target, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(app.Shutdown(context.WithoutCancel(ctx)))) }()
	if !a.Site.Environment.IsSandbox() { // before a token is refreshed
		return fmt.Errorf("%s is not a sandbox: use --environment with a sandbox", a.Site.Environment)
	}
	if c.spare == c.user {
		return errors.New("--spare must be a different user than --user")
	}
	if !c.yes && !c.terminal {
		return errors.New("cannot ask for confirmation without a terminal: add --yes to create records and revoke an authorization")
	}
	config := probe.Config{
		Application: oauth.Config{Site: a.Site, ClientID: a.ClientID, ClientSecret: a.ClientSecret, RedirectURL: a.RedirectURL},
		ClinicKey:   a.ClinicKey,
		Confirm:     func(plan probe.Plan) bool { return c.yes || c.agree(ctx, plan) },
	}
	if c.narrow != "" {
		if config.Narrow, err = secretFile("--narrow-file", c.narrow); err != nil {
			return err
		}
		if err := rejected("--narrow-file "+c.narrow+": the token", config.Narrow, a.Site, dispensary.WithAccessToken(config.Narrow.Reveal())); err != nil {
			return err
		}
	}
	conns, err := app.Accounts.Connections(a.Site.Environment)
	if err != nil {
		return err
	}
	ended, err := c.tokens(ctx, conns, a, &config)
	if err != nil {
		return err
	}
	report, err := probe.Run(ctx, config)
	switch {
	case errors.Is(err, probe.ErrDeclined) && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, probe.ErrDeclined):
		return errors.New("not confirmed: probe created nothing")
	case len(report.Findings) == 0:
		return err // keep an earlier file
	case err != nil:
		if c.sent.Load() { // the last request may have created a record that is not in the report
			err = maybeApplied{err}
		}
		if len(report.Created)+len(report.Behaviors()) == 0 {
			return err // keep an earlier file
		}
	case err == nil:
		for _, user := range ended { // the stored tokens are useless now
			_ = conns.Disconnect(ctx, user) // most tokens are revoked already, so errors are expected
		}
	}
	return failed(errors.Join(err, writeBehaviors(c.output, report), c.printReport(report)))
}

// tokens sets the tokens of the run in config. It returns the users whose authorization the run
// revokes.
func (c *probeCommand) tokens(ctx context.Context, conns *tokens.Connections, a integration.Application, config *probe.Config) (ended []string, err error) {
	if c.hasCredential(c.target) {
		if c.spare != "" {
			return nil, fmt.Errorf("--spare needs refresh tokens: unset %s, or add --user", tokenVariable)
		}
		config.Token, config.ClinicKey, err = c.credential(a)
		return nil, err
	}
	for _, one := range []struct {
		user string
		into *oauth.Token
	}{{c.user, &config.Token}, {c.spare, &config.Spare}} {
		if one.user == "" {
			continue
		}
		if _, err := conns.TokenSource(one.user).Token(ctx); err != nil {
			return nil, fmt.Errorf("user %s: %w", one.user, err)
		}
		record, err := conns.Record(ctx, one.user)
		if err != nil {
			return nil, err
		}
		*one.into = record.Token
		ended = append(ended, one.user)
	}
	return ended, nil
}

// agree prints the plan of a run, asks for confirmation and reports whether the user agreed.
func (c *probeCommand) agree(ctx context.Context, plan probe.Plan) bool {
	fmt.Fprintf(c.errOut, "Probe sends up to %d requests to %s.\nIt creates these records, which stay:\n", plan.MaxRequests, plan.Environment)
	for _, records := range plan.Creates {
		fmt.Fprintf(c.errOut, "  %s\n", records)
	}
	for _, authorization := range plan.Ends {
		fmt.Fprintf(c.errOut, "It revokes: %s\n", authorization)
	}
	fmt.Fprint(c.errOut, "Continue? [y/N] ")
	response, _ := await(ctx, c.readLine) // no input means no
	response = strings.ToLower(strings.TrimSpace(response))
	return response == "y" || response == "yes"
}

func writeBehaviors(name string, report probe.Report) error {
	var content bytes.Buffer
	if err := report.WriteBehaviors(&content); err != nil {
		return err
	}
	if err := os.WriteFile(name, content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

func (c *probeCommand) printReport(report probe.Report) error {
	var rows [][]string
	for _, f := range report.Findings {
		rows = append(rows, []string{f.Point, string(f.Verdict), f.Variant, f.Why, strings.Join(f.RequestIDs, " ")})
	}
	if err := c.print(report, []string{"POINT", "VERDICT", "VARIANT", "WHY", "REQUESTS"}, rows); err != nil || c.json {
		return err
	}
	fmt.Fprintf(c.errOut, "Probe sent %d requests. %d records marked %s stay, because the API cannot delete them:\n", report.Requests, len(report.Created), report.Marker)
	for _, record := range report.Created {
		fmt.Fprintf(c.errOut, "  %s %s\n", record.Kind, record.ID)
	}
	return nil
}
