package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/probe"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// doctorCommand is the command with its flags.
type doctorCommand struct {
	*program
	target
	webhook    string
	operations []string
	anyOrder   bool
	commands   bool
}

// doctorFlags maps fields of [doctor.Config] to flags and variables.
var doctorFlags = map[string]string{
	"doctor.Config.Operations":        "--operation",
	"doctor.Config.Webhook.Secrets":   "--webhook: DISPENSARY_…_WEBHOOK_SECRETS",
	"doctor.Config.Webhook.Challenge": "--webhook: DISPENSARY_…_WEBHOOK_CHALLENGE",
}

func newDoctorCommand(p *program) *cobra.Command {
	c := doctorCommand{program: p}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check an integration and suggest fixes",
		Long: `Doctor checks everything between your program and the platform: addresses, TLS, clocks,
credentials, a stored token and its refresh, your webhook endpoint as seen from this machine, the
platform's delivery log, the inbox and the token store. Each row shows the result, its
consequence in production and a fix. Checks of unconfigured parts are skipped.

Doctor changes only the stored token: it refreshes the token as a call would, in a production
environment only with --production. With --fix it prints the commands that help, and runs none
of them.

Exit codes: 0 if no check fails. 1 if a check fails. 2 if the configuration is missing or
invalid.`,
		Example: `  dispensary doctor
  dispensary doctor --webhook https://ehr.example/webhooks/us-sandbox --operation patients.create
  dispensary doctor --profile staging --json
  dispensary doctor --fix`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command.Context()) },
	}
	flags := command.Flags()
	c.define(flags)
	flags.StringVar(&c.user, "user", "", "check the token of the user with this `ID` (default: the first user)")
	flags.StringVar(&c.webhook, "webhook", "", "check the registered webhook endpoint at `URL`")
	flags.StringArrayVar(&c.operations, "operation", nil, "check the scopes for the operation `NAME`, such as patients.create; repeatable")
	flags.BoolVar(&c.anyOrder, "any-order", false, "accept deliveries out of order, because your handlers do")
	flags.BoolVar(&c.commands, "fix", false, "print the commands that help instead of the report, and run none of them")
	return command
}

func (c *doctorCommand) run(ctx context.Context) (err error) {
	settings, a, err := c.loadApplication(ctx, c.target)
	if err == nil {
		err = c.storeOfLogin(ctx, &settings, a)
	}
	if err != nil {
		return err
	}
	seen, err := integration.Inspect(ctx, settings, a.Site.Environment)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(seen.Close(context.WithoutCancel(ctx)))) }()
	config := c.config(a, seen)
	if c.user != "" && config.Store == nil && config.StoreErr == nil {
		return errors.New("--user needs a token store: set DISPENSARY_STORE, or connect the user with dispensary login")
	}
	report, err := doctor.Run(ctx, config)
	if err != nil {
		return asFlags(err, doctorFlags)
	}
	if c.commands && !c.json {
		err = c.printCommands(report)
	} else {
		err = c.printReport(report, report)
	}
	if err != nil {
		return err
	}
	return checksFailed(report)
}

// config returns the configuration of the checks.
func (c *doctorCommand) config(a integration.Application, seen *integration.Inspection) doctor.Config {
	config := doctor.Config{
		OAuth: seen.OAuth, ClinicKey: a.ClinicKey, Store: seen.Store, StoreErr: seen.StoreErr, User: c.user,
		Operations: c.operations, NoRefresh: c.allowWriting(a.Site.Environment) != nil,
		Webhook: doctor.Webhook{URL: c.webhook, Secrets: a.WebhookSecrets, Challenge: a.WebhookChallenge},
		Inbox:   seen.Inbox, InboxErr: seen.InboxErr,
		SecretFiles: slices.Concat(seen.SecretFiles, c.keyFiles()), AnyOrder: c.anyOrder,
	}
	for _, d := range seen.Databases {
		config.Databases = append(config.Databases, doctor.Database(d))
	}
	return config
}

// storeOfLogin sets the store of login in settings, if settings has no store and login has created
// its store.
func (c *doctorCommand) storeOfLogin(ctx context.Context, settings *integration.Config, a integration.Application) error {
	folder, err := c.configFolder()
	if err != nil || !settings.Store.IsZero() {
		return nil
	}
	if _, err := os.Stat(loginStore(folder, a)); err != nil {
		return nil
	}
	return c.useLoginStore(ctx, settings, a)
}

// keyFiles returns the path of the file with the encryption keys of login, if it exists.
func (c *doctorCommand) keyFiles() []string {
	folder, err := c.configFolder()
	name := filepath.Join(folder, sealKeyName)
	if _, absent := os.Stat(name); err != nil || absent != nil {
		return nil
	}
	return []string{name}
}

// printCommands prints the commands of all rows, below a comment with the check and its fix.
func (c *doctorCommand) printCommands(report doctor.Report) error {
	var text strings.Builder
	for _, row := range report.Rows {
		if len(row.Commands) > 0 {
			fmt.Fprintf(&text, "# %s: %s\n%s\n", row.Check, row.Fix, strings.Join(row.Commands, "\n"))
		}
	}
	if text.Len() == 0 {
		_, _ = fmt.Fprintln(c.errOut, "No command helps here. Run doctor without --fix to see all results and fixes.")
	}
	_, err := io.WriteString(c.out, text.String())
	return err
}

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
