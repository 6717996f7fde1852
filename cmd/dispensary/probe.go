package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

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
		Short: "Learn on a sandbox how the platform behaves where the API leaves it open",
		Long: `Probe finds out how a sandbox behaves on each point that the API leaves open, says which
requests show it, and writes a file with which "dispensary fake" behaves so. It never runs on
production, and asks before it sends anything: it creates patients and treatment plans that
cannot be deleted, with a marker in their names, and ends the authorization of the user that
it calls as, who was connected with "dispensary login". Without --user it calls with
DISPENSARY_ACCESS_TOKEN if that is set, and learns nothing about refreshing and revoking.

Where refresh tokens can be revoked, --spare with another user shows how far revoking reaches.
How a missing scope is refused shows with --narrow-file: an access token of the same clinic that
lacks patients:read, such as that of another application. It is used once, and not ended.`,
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
	flags.StringVar(&c.spare, "spare", "", "another connected user, by `ID`, whose authorization is ended, too")
	flags.StringVar(&c.narrow, "narrow-file", "", "an access token without the scope patients:read is in `FILE`")
	flags.StringVar(&c.output, "output", "behaviors.json", "write what was seen to `FILE`")
	flags.BoolVar(&c.yes, "yes", false, "do not ask")
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
		return fmt.Errorf("%s is no sandbox, and is not probed", a.Site.Environment)
	}
	if c.spare == c.user {
		return errors.New("--spare: must be another user than --user")
	}
	if !c.yes && !c.terminal {
		return errors.New("there is no terminal to ask on: add --yes to create records and to end an authorization")
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
		return errors.New("it was not confirmed: nothing was created")
	case len(report.Findings) == 0:
		return err // an earlier file stays as it is
	case err != nil:
		if c.sent.Load() { // the last request may have created a record that is not in the report
			err = maybeApplied{err}
		}
		if len(report.Created)+len(report.Behaviors()) == 0 {
			return err // an earlier file stays as it is
		}
	case err == nil:
		for _, user := range ended { // what is stored of it is of no use any more
			_ = conns.Disconnect(ctx, user) // most of it was revoked before, and may be unknown
		}
	}
	return failed(errors.Join(err, writeBehaviors(c.output, report), c.printReport(report)))
}

// tokens fills in the tokens that the run calls with. It returns the users whose
// authorization the run ends.
func (c *probeCommand) tokens(ctx context.Context, conns *tokens.Connections, a integration.Application, config *probe.Config) (ended []string, err error) {
	if c.hasCredential(c.target) {
		if c.spare != "" {
			return nil, fmt.Errorf("--spare: %s has no refresh token: unset it, or add --user", tokenVariable)
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

// agree shows what a run is about to do, and asks.
func (c *probeCommand) agree(ctx context.Context, plan probe.Plan) bool {
	fmt.Fprintf(c.errOut, "At most %d requests are sent to %s.\nThese records are created, and stay:\n", plan.MaxRequests, plan.Environment)
	for _, records := range plan.Creates {
		fmt.Fprintf(c.errOut, "  %s\n", records)
	}
	for _, authorization := range plan.Ends {
		fmt.Fprintf(c.errOut, "This ends: %s\n", authorization)
	}
	fmt.Fprint(c.errOut, "Go on? [y/N] ")
	answer, _ := await(ctx, c.readLine) // without one it is no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
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
	fmt.Fprintf(c.errOut, "%d requests were sent. %d records marked %s stay, because the API deletes nothing:\n", report.Requests, len(report.Created), report.Marker)
	for _, record := range report.Created {
		fmt.Fprintf(c.errOut, "  %s %s\n", record.Kind, record.ID)
	}
	return nil
}
