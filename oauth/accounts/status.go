package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Status is the state of a user's connection with the platform.
type Status string

// The statuses of an [Account].
const (
	// StatusNotConnected: the store has no token of the user.
	StatusNotConnected Status = "not_connected"

	// StatusConnected: calls work.
	StatusConnected Status = "connected"

	// StatusExpiring: the access token has expired or is about to. This is normal: the next
	// call, or [Accounts.KeepFresh], replaces it.
	StatusExpiring Status = "expiring"

	// StatusMustReauthorize: the user has to connect again. [Account.Reason] is the reason.
	// [Accounts.Restore] undoes the mark if it is wrong.
	StatusMustReauthorize Status = "must_reauthorize"
)

// Account is the status and the details of one user. It contains no secret, so you can show or
// encode it.
type Account struct {
	// Key is the user and the environment.
	Key tokenstore.Key

	// Status reports whether calls work. Reason is the reason if they do not, such as
	// [tokenstore.ReasonNotConnected] for StatusNotConnected.
	Status Status
	Reason tokenstore.Reason

	// Owner is the platform account that the token acts for.
	Owner oauth.ResourceOwner

	// Clinic is the user's clinic. Zero if unknown.
	Clinic oauth.Clinic

	// Scopes are the scopes that the user granted.
	Scopes []string

	// ExpiresAt is the expiry of the access token. ConnectedAt, UsedAt and UpdatedAt are
	// copied from [oauth.Token] and [tokenstore.Record].
	ExpiresAt, ConnectedAt, UsedAt, UpdatedAt time.Time
}

// String returns key, status and reason.
func (a Account) String() string {
	return strings.TrimSpace("accounts.Account{"+a.Key.String()+" "+string(a.Status)+" "+string(a.Reason)) + "}"
}

// Format prints [Account.String] for every verb.
func (a Account) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// Status returns the account of user. It only reads the store. If the platform has since
// rejected the token, only the next call reports it. A user who is not connected is not an
// error.
func (a *Accounts) Status(ctx context.Context, user string) (Account, error) {
	app, err := a.locate(ctx, user)
	if err != nil {
		return Account{}, err
	}
	key := app.conns.Key(user)
	record, err := app.conns.Record(ctx, user)
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord):
		return Account{Key: key, Status: StatusNotConnected, Reason: tokenstore.ReasonNotConnected}, nil
	case err != nil:
		return Account{}, fmt.Errorf("accounts: status of %s: %w", key, err)
	}
	return app.account(record), nil
}

// account converts a record.
func (app *application) account(record tokenstore.Record) Account {
	account := Account{
		Key: record.Key, Status: StatusConnected,
		Owner: record.Token.ResourceOwner, Clinic: record.Token.Clinic, Scopes: record.Token.Scopes(),
		ExpiresAt: record.Token.ExpiresAt, ConnectedAt: record.Token.ConnectedAt, UsedAt: record.Token.UsedAt, UpdatedAt: record.UpdatedAt,
	}
	var needsUser *tokens.ReauthorizeError
	end := record.Token.ExpiresAt
	switch err := app.conns.Usable(record); {
	case errors.As(err, &needsUser):
		account.Status, account.Reason = StatusMustReauthorize, needsUser.Reason
	case !end.IsZero() && time.Until(end) < defaults.TokenLeeway:
		account.Status = StatusExpiring
	}
	return account
}

// ListOptions filters the list of accounts. The zero value lists all accounts.
type ListOptions struct {
	// Environment limits the list to one environment. Empty lists all environments.
	Environment dispensary.Environment

	// State limits the list to records in this state, such as [tokenstore.StateReauthorize]
	// for users who need a new link. Empty lists all states.
	State tokenstore.State

	// ClinicID limits the list to the users of one clinic. Empty lists all users.
	ClinicID string
}

// accountPage is the number of records per read.
const accountPage = 500

// List returns the accounts of all users, one environment after another, each sorted by ID. It
// reads the store in pages while you range over it. An error ends the list.
//
// List is for display. It returns owner, clinic and scopes from columns that are not
// encrypted, so anyone with write access to the database can change them. [Accounts.Status]
// returns them from the encrypted record.
func (a *Accounts) List(ctx context.Context, options ListOptions) iter.Seq2[Account, error] {
	return func(yield func(Account, error) bool) {
		for _, app := range a.order {
			environment := app.conns.Environment()
			if options.Environment != "" && options.Environment != environment {
				continue
			}
			if !app.list(ctx, a.config.Tokens.Store, tokenstore.Listing{Environment: environment, State: options.State, ClinicID: options.ClinicID, Limit: accountPage}, yield) {
				return
			}
		}
	}
}

// list yields the accounts of one environment. It returns false if the iteration has to stop.
func (app *application) list(ctx context.Context, store tokenstore.Store, listing tokenstore.Listing, yield func(Account, error) bool) bool {
	for {
		records, err := store.List(ctx, listing)
		if err != nil {
			yield(Account{}, fmt.Errorf("accounts: listing the accounts of %s: %w", listing.Environment, err))
			return false
		}
		for _, record := range records {
			if !yield(app.account(record), nil) {
				return false
			}
		}
		if len(records) == 0 {
			return true
		}
		listing.After = records[len(records)-1].Key.User
	}
}
