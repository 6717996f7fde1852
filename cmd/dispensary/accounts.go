package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/oauth/accounts"
)

// accountsCommand is a subcommand of accounts with its flags.
type accountsCommand struct {
	*program
	target
}

func newAccountsCommand(p *program) *cobra.Command {
	command := &cobra.Command{
		Use:   "accounts",
		Short: "List, disconnect and restore connected users",
		Long: `Accounts lists the users whose tokens are in the store, disconnects users, and restores users
marked by mistake.`,
		Example: `  dispensary accounts list
  dispensary accounts list --json --profile staging
  dispensary accounts disconnect --user dr-house`,
	}
	listed := accountsCommand{program: p}
	list := &cobra.Command{
		Use:   "list",
		Short: "List connected users and their status",
		Long: `List prints the users whose tokens are in the store: the status, the reason if calls as the user
fail, the type and ID of the platform account that owns the tokens, and the times of the
connection and of the last use. List reads only the store. It sends no request and changes
nothing.

Exit codes: 0 on success, also if the store contains no user. 1 if reading the users fails. 2 if
the store cannot be opened.`,
		Example: `  dispensary accounts list
  dispensary accounts list --environment ca/sandbox
  dispensary accounts list --json | jq -r 'select(.status == "must_reauthorize") | .user'`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return listed.list(command.Context()) },
	}
	listed.define(list.Flags())
	group(command, list,
		newAccountChangeCommand(p, "disconnect", "Revoke and delete the tokens of a user",
			`Disconnect revokes the tokens of a user at the platform, deletes them from the store and prints
the new status. It succeeds if the user is not connected. If the platform is unreachable, calls
stop using the tokens, and you can repeat the command. In a production environment it needs
--production.

Exit codes: 0 if the user is disconnected. 1 if disconnecting fails. 2 if it sent no request and
changed nothing.`, (*accounts.Accounts).Disconnect),
		newAccountChangeCommand(p, "restore", "Restore a user marked must_reauthorize by mistake",
			`Restore removes the mark must_reauthorize from a user, so that calls use the stored tokens again.
Use it for a mark set by mistake, such as during an outage of the platform. Restore sends no
request: if the platform still rejects the tokens, the next call sets the mark again. In a
production environment it needs --production.

Exit codes: 0 if the mark is removed. 1 if the user has no stored tokens or the store fails. 2 if
the store cannot be opened.`, (*accounts.Accounts).Restore))
	return command
}

// newAccountChangeCommand returns a command that calls do for the account of a user and prints the
// new status.
func newAccountChangeCommand(p *program, name, short, long string, do func(*accounts.Accounts, context.Context, string) error) *cobra.Command {
	c := accountsCommand{program: p}
	command := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Example: fmt.Sprintf(`  dispensary accounts %[1]s
  dispensary accounts %[1]s --user dr-house
  dispensary accounts %[1]s --user dr-house --environment us/production --production`, name),
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.change(command.Context(), do) },
	}
	c.define(command.Flags())
	c.defineUser(command.Flags())
	return command
}

func (c *accountsCommand) list(ctx context.Context) (err error) {
	app, a, err := c.openAccounts(ctx, c.target, nil)
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
	return c.printAccounts(all...)
}

func (c *accountsCommand) change(ctx context.Context, do func(*accounts.Accounts, context.Context, string) error) (err error) {
	app, a, err := c.openAccounts(ctx, c.target, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(app.Shutdown(context.WithoutCancel(ctx)))) }()
	if err := c.allowWriting(a.Site.Environment); err != nil {
		return err
	}
	if err := do(app.Accounts, ctx, c.user); err != nil {
		return failed(err)
	}
	account, err := app.Accounts.Status(context.WithoutCancel(ctx), c.user) // the change must be reported even after Ctrl-C
	if err != nil {
		return failed(err)
	}
	return failed(c.printAccounts(account))
}

// accountView is the JSON document of an account.
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

// printAccounts prints accounts. With --json it prints one document per line.
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
