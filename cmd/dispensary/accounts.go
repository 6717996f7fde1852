package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
)

// accountKeys are the settings of an integration that its accounts need.
var accountKeys = []string{"base_url", "auth_url", "client_id", "client_secret", "redirect_url"}

// loadApplication reads the configuration, and finds the application that a command works
// with. Its client secret is asked for where it is missing and there is a person to ask.
func (p *program) loadApplication(ctx context.Context, t target) (c integration.Config, a integration.Application, err error) {
	keys := accountKeys
	if p.asks {
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "client_secret" })
	}
	if c, err = p.loadConfig(keys...); err != nil {
		return c, a, err
	}
	if a, err = p.application(c, t); err != nil || !a.ClientSecret.IsZero() || !p.asks {
		return c, a, err
	}
	_, _ = fmt.Fprintf(p.errOut, "Client secret of %s: ", a.Site.Environment)
	text, err := p.readSecret(ctx)
	a.ClientSecret = dispensary.NewSecret(text)
	c.Applications = []integration.Application{a} // the one that is worked with
	return c, a, err
}

// openAccounts opens the accounts of one application, and their browser flow if there is one.
// Without a configured store it uses the store of login.
func (p *program) openAccounts(ctx context.Context, t target, flow *connect.Config) (_ *integration.Integration, a integration.Application, err error) {
	c, a, err := p.loadApplication(ctx, t)
	if err != nil {
		return nil, a, err
	}
	a.WebhookSecrets, a.WebhookChallenge = nil, dispensary.Secret{}
	c.Applications, c.Inbox = []integration.Application{a}, dispensary.Secret{}
	if c.Store.IsZero() {
		if err := p.useLoginStore(ctx, &c, a); err != nil {
			return nil, a, err
		}
	}
	setup := integration.Setup{}
	if flow != nil {
		setup.Connect = *flow
		if len(c.StateKeys) == 0 { // the flow ends in the process in which it begins
			c.StateKeys = []dispensary.Secret{dispensary.NewSecret(rand.Text() + rand.Text())}
		}
	}
	app, err := integration.Open(ctx, c, setup)
	return app, a, err
}

// loginStore returns the path of the store that login keeps for an application in the
// configuration folder. A stored token does not know the address that issued it, so each site
// and client has its own store.
func loginStore(folder string, a integration.Application) string {
	return filepath.Join(folder, siteFile("tokens", ".db", a.Site, a.Site.AuthURL, a.ClientID))
}

// useLoginStore completes c with the store of login and its encryption keys.
func (p *program) useLoginStore(ctx context.Context, c *integration.Config, a integration.Application) error {
	folder, err := p.configFolder()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	c.Store = dispensary.NewSecret("sqlite:" + loginStore(folder, a))
	if c.SealKeys.IsZero() {
		c.SealKeys, err = p.sealKeys(ctx, folder)
	}
	return err
}

func (p *program) accountsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "accounts",
		Short: "See, restore and end the connections of users",
		Long:  "Accounts shows the users whose tokens are in the store, disconnects them, and undoes wrong marks.",
		Example: `  dispensary accounts list
  dispensary accounts list --json --profile staging
  dispensary accounts disconnect --user dr-house`,
	}
	var listed target
	list := &cobra.Command{
		Use:   "list",
		Short: "List the users who were connected, and how they stand",
		Long: `List shows the users whose tokens are in the store: whether calls work, or why not, and
when they were connected and seen, and the type and ID of the platform account that owns the
tokens. It asks the store, and not the platform.`,
		Example: `  dispensary accounts list
  dispensary accounts list --environment ca/sandbox
  dispensary accounts list --json | jq -r 'select(.status == "must_reauthorize") | .user'`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return p.listAccounts(command.Context(), listed) },
	}
	listed.define(list.Flags())
	group(command, list,
		p.accountChangeCommand("disconnect", "Revoke the tokens of a user, and delete them",
			`Disconnect revokes the tokens of a user at the platform and deletes them from the store. A
user who is not connected is no error.`, (*accounts.Accounts).Disconnect),
		p.accountChangeCommand("restore", "Use the tokens of a user again who was marked wrongly",
			`Restore removes the mark of a user who has to authorize again: the tokens are still in the
store, and calls use them again. It is for marks that were a mistake, such as those of an outage
of the platform. The platform is not asked; a call that it refuses sets the mark again.`, (*accounts.Accounts).Restore))
	return command
}

// accountChangeCommand makes a command that does something with the account of a user, and
// shows how it stands then.
func (p *program) accountChangeCommand(name, short, long string, do func(*accounts.Accounts, context.Context, string) error) *cobra.Command {
	var t target
	command := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Example: fmt.Sprintf(`  dispensary accounts %[1]s
  dispensary accounts %[1]s --user dr-house
  dispensary accounts %[1]s --user dr-house --environment us/production --production`, name),
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return p.changeAccount(command.Context(), t, do) },
	}
	t.define(command.Flags())
	t.defineUser(command.Flags())
	return command
}

func (p *program) listAccounts(ctx context.Context, t target) (err error) {
	app, a, err := p.openAccounts(ctx, t, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(app.Shutdown(context.WithoutCancel(ctx)))) }()
	var all []accounts.Account
	for account, err := range app.Accounts.List(ctx, accounts.ListOptions{Environment: a.Site.Environment}) {
		if err != nil {
			return failed(err)
		}
		all = append(all, account)
	}
	return p.printAccounts(all...)
}

func (p *program) changeAccount(ctx context.Context, t target, do func(*accounts.Accounts, context.Context, string) error) (err error) {
	app, a, err := p.openAccounts(ctx, t, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(app.Shutdown(context.WithoutCancel(ctx)))) }()
	if err := p.allowWriting(a.Site.Environment); err != nil {
		return err
	}
	if err := do(app.Accounts, ctx, t.user); err != nil {
		return failed(err)
	}
	account, err := app.Accounts.Status(context.WithoutCancel(ctx), t.user) // the change is done
	if err != nil {
		return failed(err)
	}
	return failed(p.printAccounts(account))
}

// accountView is an account as it is printed.
type accountView struct {
	User        string    `json:"user"`
	Environment string    `json:"environment"`
	Status      string    `json:"status"`
	Reason      string    `json:"reason,omitempty"`
	OwnerType   string    `json:"owner_type,omitempty"`
	OwnerID     string    `json:"owner_id,omitempty"`
	Scopes      []string  `json:"scopes,omitempty"`
	ConnectedAt time.Time `json:"connected_at,omitzero"`
	UsedAt      time.Time `json:"used_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
}

// printAccounts prints accounts, with --json a line for each.
func (p *program) printAccounts(all ...accounts.Account) error {
	var rows [][]string
	for _, a := range all {
		v := accountView{
			User: a.Key.User, Environment: a.Key.Environment.String(), Status: string(a.Status), Reason: string(a.Reason),
			OwnerType: a.Owner.Type, OwnerID: a.Owner.ID, Scopes: a.Scopes,
			ConnectedAt: a.ConnectedAt, UsedAt: a.UsedAt, ExpiresAt: a.ExpiresAt,
		}
		if p.json {
			if err := p.printJSON(v); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{v.User, v.Environment, v.Status, v.Reason, strings.TrimSpace(v.OwnerType + " " + v.OwnerID), timeText(v.ConnectedAt), timeText(v.UsedAt)})
	}
	if p.json {
		return nil
	}
	return p.print(nil, []string{"USER", "ENVIRONMENT", "STATUS", "REASON", "OWNER", "CONNECTED", "USED"}, rows)
}

// timeText is a time for people and scripts; a dash if it is not known.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
