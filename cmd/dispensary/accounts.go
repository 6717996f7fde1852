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

// accountsCommand is a command below accounts with its flags.
type accountsCommand struct {
	*program
	target
}

func newAccountsCommand(p *program) *cobra.Command {
	command := &cobra.Command{
		Use:   "accounts",
		Short: "See, restore and end the connections of users",
		Long:  "Accounts shows the users whose tokens are in the store, disconnects them, and undoes wrong marks.",
		Example: `  dispensary accounts list
  dispensary accounts list --json --profile staging
  dispensary accounts disconnect --user dr-house`,
	}
	listed := accountsCommand{program: p}
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
		RunE: func(command *cobra.Command, _ []string) error { return listed.list(command.Context()) },
	}
	listed.define(list.Flags())
	group(command, list,
		newAccountChangeCommand(p, "disconnect", "Revoke the tokens of a user, and delete them",
			`Disconnect revokes the tokens of a user at the platform and deletes them from the store. A
user who is not connected is no error.`, (*accounts.Accounts).Disconnect),
		newAccountChangeCommand(p, "restore", "Use the tokens of a user again who was marked wrongly",
			`Restore removes the mark of a user who has to authorize again: the tokens are still in the
store, and calls use them again. It is for marks that were a mistake, such as those of an outage
of the platform. The platform is not asked; a call that it refuses sets the mark again.`, (*accounts.Accounts).Restore))
	return command
}

// accountChangeCommand makes a command that does something with the account of a user, and
// shows how it stands then.
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
	account, err := app.Accounts.Status(context.WithoutCancel(ctx), c.user) // the change is done
	if err != nil {
		return failed(err)
	}
	return failed(c.printAccounts(account))
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
