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

// Status is how a user stands with the platform.
type Status string

// The statuses of an [Account].
const (
	// StatusNotConnected: nothing is stored for the user.
	StatusNotConnected Status = "not_connected"

	// Connected: calls work.
	StatusConnected Status = "connected"

	// Expiring: the access token is at its end, or past it. Nothing is
	// wrong: the next call, or [Accounts.KeepFresh], fetches a new one.
	StatusExpiring Status = "expiring"

	// StatusMustReauthorize: only the user can help, by connecting again.
	// [Account.Reason] says why. [Accounts.Restore] undoes it where it is a
	// mistake.
	StatusMustReauthorize Status = "must_reauthorize"
)

// Account is how one user stands with the platform, without any secret: it can
// be shown, and encoded.
type Account struct {
	// Key names the user and the environment.
	Key tokenstore.Key

	// Status says whether calls work, and Reason why not.
	Status Status
	Reason tokenstore.Reason

	// Owner is who the token acts for on the platform.
	Owner oauth.ResourceOwner

	// Clinic is the one that the user belongs to; zero if it is not known.
	Clinic oauth.Clinic

	// Scopes are what the user granted.
	Scopes []string

	// ExpiresAt is the end of the access token; ConnectedAt, UsedAt and UpdatedAt
	// are those of [oauth.Token] and [tokenstore.Record].
	ExpiresAt, ConnectedAt, UsedAt, UpdatedAt time.Time
}

// String returns key, status and reason.
func (a Account) String() string {
	return strings.TrimSpace("accounts.Account{"+a.Key.String()+" "+string(a.Status)+" "+string(a.Reason)) + "}"
}

// Format prints [Account.String] for every verb.
func (a Account) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// Status returns how user stands. It reads the store and nothing else: what
// the platform has forgotten since the last call shows with the next one. A user
// who is not connected is no error.
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

// account says what a record means.
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

// ListOptions says which accounts are listed. The zero value lists all.
type ListOptions struct {
	// Environment limits the list to one environment; zero lists all of them.
	Environment dispensary.Environment

	// State limits the list to records in it, for example
	// [tokenstore.StateReauthorize] for those to send a link to; empty lists all.
	State tokenstore.State

	// ClinicID limits the list to users of one clinic; empty lists all.
	ClinicID string
}

// accountPage is how many records are read at a time.
const accountPage = 500

// List ranges over the accounts of all users, environment by environment and in
// the order of their ids. It reads them from the store in pages, as it goes; an
// error ends it.
//
// List is for display. It returns owner, clinic and scopes from columns that are not
// encrypted, so anyone who can write to the database can change them.
// [Accounts.Status] returns them from the encrypted record.
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

// list yields the accounts of one environment, and false when it is enough.
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
