package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/integration/doctor"
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
