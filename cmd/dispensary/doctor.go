package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/doctor"
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

// doctorFlags are the flags and variables that set fields of [doctor.Config].
var doctorFlags = map[string]string{
	"doctor.Config.Operations":        "--operation",
	"doctor.Config.Webhook.Secrets":   "--webhook: DISPENSARY_…_WEBHOOK_SECRETS",
	"doctor.Config.Webhook.Challenge": "--webhook: DISPENSARY_…_WEBHOOK_CHALLENGE",
}

func newDoctorCommand(p *program) *cobra.Command {
	c := doctorCommand{program: p}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look at a whole integration, and say what is wrong and how to fix it",
		Long: `Doctor looks at everything between you and the platform: addresses, TLS, clocks, credentials,
a stored token and whether it is still refreshed, your endpoint for webhooks as it is seen from
here, the platform's delivery log, the inbox and the token store. Each row says what was seen,
what that does in production, and how to fix it. What is not configured is skipped.

It changes nothing but the stored token, which is refreshed as a call would do it; in a
production environment only with --production. With --fix it prints the commands that help,
and runs none of them. The exit code is 1 if a check fails.`,
		Example: `  dispensary doctor
  dispensary doctor --webhook https://ehr.example/webhooks/us-sandbox --operation patients.create
  dispensary doctor --profile staging --json
  dispensary doctor --fix`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command.Context()) },
	}
	flags := command.Flags()
	c.define(flags)
	flags.StringVar(&c.user, "user", "", "whose token is looked at, by the `ID` of the user; the first unless set")
	flags.StringVar(&c.webhook, "webhook", "", "the registered `URL` of your endpoint for webhooks")
	flags.StringArrayVar(&c.operations, "operation", nil, "`NAME` of an operation that you call, such as patients.create; repeat it")
	flags.BoolVar(&c.anyOrder, "any-order", false, "your handlers allow for events that come out of order")
	flags.BoolVar(&c.commands, "fix", false, "print the commands that help, and run none")
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
		return errors.New("--user: there is no store of tokens: set DISPENSARY_STORE, or connect with dispensary login")
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

// config returns what the doctor examines.
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

// storeOfLogin completes a configuration that has no store with the store of login, if login
// has created it.
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

// keyFiles returns the path of the encryption keys of login, if they are in a file.
func (c *doctorCommand) keyFiles() []string {
	folder, err := c.configFolder()
	name := filepath.Join(folder, sealKeyName)
	if _, absent := os.Stat(name); err != nil || absent != nil {
		return nil
	}
	return []string{name}
}

// printCommands prints the commands that help.
func (c *doctorCommand) printCommands(report doctor.Report) error {
	if !slices.ContainsFunc(report.Rows, func(row doctor.Row) bool { return len(row.Commands) > 0 }) {
		_, _ = fmt.Fprintln(c.errOut, "There is no command that helps: without --fix each row says what does.")
	}
	return report.WriteCommands(c.out)
}
